"""
What the database would have answered at each version, of everything that nodes are asked for: in the run a trigger writes it down at
the end of the step that appends the version, which holds the counter by then. It is the state at the commit of the version.
"""
import bisect
import hashlib
import re

from .operation import KEYS
from .timeline import ABSENT, IN_TRANSITION

# key → [marker, version, digest of the rest of the document, id, stamp], of a user whether it may read the catalog
DOCUMENTS = r"""
SELECT jsonb_object_agg(k.key, k.value) FROM
    (SELECT CASE kind WHEN 'bucket' THEN 'bucket:' || o.catalog_name || '/' || o.database_name
                WHEN 'table' THEN o.database_name || '/' || o.object_name
                ELSE kind || ':' || o.database_name || '/' || o.object_name END AS key,
        jsonb_build_array(o.state, o.version, md5(regexp_replace(o.document, '"version" : \d+', '')), o.object_id, o.document::jsonb #>> '{definition,properties,stamp}') AS value
     FROM amoro_meta.metadata_object o WHERE o.kind IN ('table', 'device', 'partition', 'bucket')
     UNION ALL
     SELECT 'user:' || p.principal_name,
        to_jsonb(amoro_meta.privilege_in_snapshot(p.principal_name, 'SELECT', 'lake', NULL, NULL, NULL))
     FROM amoro_meta.principal p WHERE p.principal_kind = 'user') k
"""

PREPARE = (
    'CREATE TABLE public.chaos_document (version bigint PRIMARY KEY, documents jsonb NOT NULL)',
    f"""
CREATE FUNCTION public.chaos_note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
DECLARE
    own bigint := (SELECT m.version FROM amoro_meta.metadata_version m WHERE m.xmin = pg_current_xact_id()::xid);
BEGIN
    IF own IS NOT NULL THEN
        INSERT INTO public.chaos_document AS d SELECT own, coalesce(({DOCUMENTS}), '{{}}')
            ON CONFLICT (version) DO UPDATE SET documents = excluded.documents;
    END IF;
    RETURN NULL;
END
$function$
""",
    # the last thing that a step writes is the state of its procedure
    'CREATE TRIGGER chaos_note AFTER UPDATE ON amoro_meta.procedure FOR EACH ROW EXECUTE FUNCTION public.chaos_note()')


class Documents:
    """What there was of one key at each version."""

    def __init__(self, key):
        self.key = key
        self.versions = [0]
        self.values = [None]

    def append(self, version, value):
        self.versions.append(version)
        self.values.append(value)

    def at(self, version):
        return self.values[bisect.bisect_right(self.versions, version) - 1]

    def answer(self, value):
        """What a reader is told."""
        if self.key.startswith('user:'):
            return ('allowed', bool(value))
        if value is None:
            return ABSENT
        marker, version, digest = value[:3]
        return IN_TRANSITION if marker in ('pre_create', 'pre_drop') else ('there', version, digest)

    def between(self, first, last, spans=()):
        """
        The answers at the versions from first to last, both included. spans: from the version of a marker to the one with which it
        goes. In between, what has it is changed by steps that log nothing, under the version of the marker; nobody has it in memory then.
        """
        of_marker = set()
        for begin, end in spans:
            if begin <= last and first < end:
                first, last = min(first, begin), max(last, end)
                of_marker.add(begin)
        low = max(bisect.bisect_right(self.versions, first) - 1, 0)
        high = bisect.bisect_right(self.versions, last)
        answers = [self.answer(value) for value in self.values[low:high]]
        # another change may come in between: what there is then was never written down
        return answers + [('there', version, None) for version in of_marker]


def digest(document):
    """As in DOCUMENTS, of what a node has served."""
    return hashlib.md5(re.sub(rb'"version" : \d+', b'', document)).hexdigest()


def read(events):
    """key → Documents, from what a run has recorded."""
    documents = {key: Documents(key) for key in KEYS}
    for event in events:
        for key, value in event['changed'].items():
            if key in documents:
                documents[key].append(event['version'], value)
    return documents
