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
# each failure says what happens, what is seen, and what to do
awk 'function check(  i) { for (i = 1; i <= 3; i++) if (title != "" && index(text, label[i]) == 0) print FILENAME ": " label[i] " is not said of: " title }
	BEGIN { label[1] = "*What happens.*"; label[2] = "*What you see.*"; label[3] = "*What you do.*" }
	/^##/ { check(); title = /^### / ? substr($0, 5) : ""; text = "" } { text = text $0 } END { check() }' docs/fault-tolerance.md
# tests: everything that the tables of faults name as the one that shows it
awk -F'|' '/shown by \|$/ { on = 1 } !/^\|/ { on = 0 } on { print $(NF - 1) }' docs/fault-tolerance.md | grep -oE '`[^`]+`' | tr -d '`' | sort -u |
	while read -r name; do
		[ -e "test/t/$name.pl" ] || [ -e "test/node/$name.c" ] || [ -e "test/specs/$name.spec" ] || [ -e "sql/$name.sql" ] || [ -e "$name" ] ||
			echo "docs/fault-tolerance.md: no test $name"
	done
grep -oE '`[0-9a-z_]+`' docs/fault-tolerance.md | tr -d '`' | grep -E '^[0-9]{3}_|_test$|^procedure_[a-z]+$' | sort -u | while read -r name; do
	[ -e "test/t/$name.pl" ] || [ -e "test/node/$name.c" ] || [ -e "test/specs/$name.spec" ] ||
		[ -n "$(psql -X -q -At -c "SELECT 1 FROM pg_class WHERE relname = '$name' UNION ALL SELECT 1 FROM pg_proc WHERE proname = '$name'")" ] ||
		echo "docs/fault-tolerance.md: no test or function $name"
done
# every source has its place in the tables of the README of its part; blocker*.c stands for all that match
for part in src/extension src/node; do
	patterns=$(grep -oE '`[a-z_*]+\.[ch]`' $part/README.md | tr -d '`')
	for file in $part/*.c $part/*/*.c; do
		found=
		for pattern in $patterns; do
			if [[ ${file##*/} == $pattern ]]; then found=yes; fi
		done
		[ -n "$found" ] || [ ! -e "$file" ] || echo "$part/README.md: no word about $file"
	done
done
# and so has every part of the install script
sed 's/#.*//' src/schema/order | grep . | while read -r part; do
	grep -qF "\`$part\`" src/schema/README.md || echo "src/schema/README.md: no word about $part"
done
# files that documents and comments name, with or without their folders
find . -type f -not -path './.git/*' -not -path './.stage/*' | perl -e '
	my @there = <STDIN>;
	chomp @there;
	for my $file (grep m{\.md$|^\./(?:src|test)/.*\.(?:[ch]|sql|p[lm])$} && !m{/build}, @there)
	{
		open my $in, "<", $file or die "$file: $!";
		while (<$in>)
		{
			my $text = $file =~ /\.md$/ ? join " ", /`([^`]*)`/g : m{(?:/\*|^ \*|^\s*--|^\s*#)\s(.*)} ? $1 : next;
			for my $name ($text =~ m{(?<![\w*./\$-])((?:\w+/)*[a-z]\w*\.(?:[ch]|sql|p[lmy]|pml|spec))(?![\w*])}g)
			{
				print "$file:$.: no file $name\n" unless $name eq "postgres.h" || grep m{/\Q$name\E$}, @there;
			}
		}
	}'
# the queries for monitoring run
awk '/Alerts worth having/ { here = 1 } here && /^```sql/ { on = 1; next } on && /^```/ { exit } on' docs/operations.md >"$AMORO_WORK/alerts.sql"
[ -s "$AMORO_WORK/alerts.sql" ] || echo "docs/operations.md: no queries for monitoring"
psql -X -q -v ON_ERROR_STOP=1 -f "$AMORO_WORK/alerts.sql" 2>&1 >/dev/null
exit 0
