# docs/sql.md says what the installed extension says; script/reference brings it up to date.
set -u
psql -X -q -v ON_ERROR_STOP=1 -f script/reference.sql | diff docs/sql.md - | head -n 20
exit 0
