# The version is written once, in the control file; what repeats it must agree.
set -u
version=$(sed -n "s/^default_version *= *'\(.*\)'/\1/p" amoro_meta.control)
[ -n "$version" ] || echo "amoro_meta.control: no default_version"
# PGXN wants three numbers
grep -qF "\"version\": \"$version.0\"" META.json || echo "META.json: does not say version $version.0"
grep -m 1 -E '^## ' CHANGELOG.md | grep -qF "$version" || echo "CHANGELOG.md: the newest heading is not $version"
seen=$("$AMORO_NODE" --version 2>&1)
case $seen in
	*" $version") ;;
	*) echo "amoro-node --version says \"$seen\", not $version" ;;
esac
exit 0
