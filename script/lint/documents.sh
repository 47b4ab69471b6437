# Documents name only what exists: files, tests, settings, functions and views.
set -u
documents=$(find . -name '*.md' -not -path './.stage/*' -not -path '*/build/*')
for document in $documents; do
	directory=$(dirname "$document")
	# links to files
	grep -oE '\]\([^):]+\)' "$document" | tr -d '])(' | sed 's/#.*//' | grep . | sort -u | while read -r target; do
		[ -e "$directory/$target" ] || echo "$document: no file $target"
	done
	# paths in the text
	grep -oE '`(src|test|sql|docs|script|expected|demo)/[A-Za-z0-9_./-]+`' "$document" | tr -d '`' | sort -u | while read -r path; do
		[ -e "$path" ] || echo "$document: no file $path"
	done
	# settings
	grep -oE '\bamoro_meta\.[a-z_]+' "$document" | sort -u | while read -r name; do
		[ -n "$(psql -X -q -At -c "SELECT 1 FROM pg_settings WHERE name = '$name'
			UNION ALL SELECT 1 FROM pg_class WHERE oid = to_regclass('$name')
			UNION ALL SELECT 1 FROM pg_proc WHERE pronamespace = to_regnamespace('amoro_meta') AND 'amoro_meta.' || proname = '$name'")" ] ||
			[ -e "$name" ] || [ -e "src/extension/$name" ] || [ "$name" = amoro_meta.so ] || echo "$document: nothing is named $name"
	done
done
# tests
grep -oE '`[0-9a-z_]+`' docs/fault-tolerance.md | tr -d '`' | grep -E '^[0-9]{3}_|_test$|^procedure_[a-z]+$' | sort -u | while read -r name; do
	[ -e "test/t/$name.pl" ] || [ -e "test/node/$name.c" ] || [ -e "test/specs/$name.spec" ] ||
		[ -n "$(psql -X -q -At -c "SELECT 1 FROM pg_class WHERE relname = '$name' UNION ALL SELECT 1 FROM pg_proc WHERE proname = '$name'")" ] ||
		echo "docs/fault-tolerance.md: no test or function $name"
done
exit 0
