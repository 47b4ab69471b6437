# docs/sql.md says what the installed extension says; script/reference brings it up to date.
set -u
psql -X -q -v ON_ERROR_STOP=1 -f script/reference.sql >"$AMORO_WORK/sql.md" &&
	cmp -s docs/sql.md "$AMORO_WORK/sql.md" && exit 0
echo "docs/sql.md is not up to date: run script/reference"
diff docs/sql.md "$AMORO_WORK/sql.md" | head -n 20
exit 0
