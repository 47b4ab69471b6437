# The manual is complete: every setting, function, view, error code and option of the node stands in it.
set -u
query() { psql -X -q -At -v ON_ERROR_STOP=1 -c "$1"; }
missing() { while read -r word; do grep -qF -- "$word" README.md || echo "README.md: no word about $1 $word"; done; }

query "SELECT name FROM pg_settings WHERE name LIKE 'amoro\_meta.%' AND name NOT LIKE '%.debug\_%'" | missing setting
query "SELECT proname FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.deptype = 'e' JOIN pg_extension e ON e.oid = d.refobjid
	WHERE extname = 'amoro_meta' AND d.classid = 'pg_proc'::regclass AND pronamespace = extnamespace AND prorettype <> 'trigger'::regtype" | missing function
query "SELECT relname FROM pg_class c JOIN pg_depend d ON d.objid = c.oid AND d.deptype = 'e' JOIN pg_extension e ON e.oid = d.refobjid
	WHERE extname = 'amoro_meta' AND d.classid = 'pg_class'::regclass AND relkind = 'v' AND relnamespace = extnamespace" | missing view
sed -n "s/.*MAKE_SQLSTATE('\(.\)', '\(.\)', '\(.\)', '\(.\)', '\(.\)').*/\1\2\3\4\5/p" src/extension/error_codes.h | missing error
grep -ohE "'AM[0-9]{3}'" src/schema/*.sql | tr -d "'" | sort -u | missing error
"$AMORO_NODE" --help | grep -oE '(^|[ ,])--[a-z-]+' | tr -d ' ,' | sort -u | missing 'option of amoro-node'
exit 0
