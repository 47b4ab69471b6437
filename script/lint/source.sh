# The house rules that a machine can read: sizes, unsafe calls, left-over marks, version checks in one place.
set -u
sources=$(find src test script -type f \( -name '*.[ch]' -o -name '*.sql' -o -name '*.p[lm]' -o -name '*.py' -o -name '*.sh' \) -not -path '*/build/*')
code=$(find src test -type f -name '*.[ch]' -not -path '*/build/*')

for file in $sources; do
	lines=$(wc -l <"$file")
	case $file in
		src/*) most=450 ;;
		*) most=700 ;;			# tests are lists
	esac
	[ "$lines" -le $most ] || echo "$file: $lines lines, more than $most: more than one noun?"
done
for file in $code; do
	awk -v file="$file" '/^\{/ { start = NR } /^\}/ { if (start && NR - start > 70)
		printf "%s:%d: function of %d lines, more than 70\n", file, start, NR - start; start = 0 }' "$file"
done
# Without a bound, or not safe in a program with threads; snprintf, strlcpy, strtol and friends do the same.
grep -nE '(^|[^A-Za-z_])(strcpy|strcat|sprintf|vsprintf|gets|strtok|alloca)[ ]*\(' $code
grep -nE '(^|[^A-Za-z_])(atoi|atol|atoll|system|popen|localtime|gmtime)[ ]*\(' $(echo "$code" | grep '^src/')
grep -nE '\b(TODO|FIXME|XXX|HACK)\b' $sources | grep -v '^script/lint/'
# Min and Max evaluate the lesser or greater one twice: what they are given does nothing but to look something up.
perl -ne 'while (/\b(?:Min|Max)(\((?:[^()]++|(?1))*\))/g)
	{
		my $given = $1;
		$given =~ s/\b(?:Min|Max|sizeof|lengthof|strlen|floor|list_length|llast_int|lease_clock_now|own_entry_locked)\b *\(/(/g;
		print "$ARGV:$.: Min or Max of what $1() returns, which is called twice\n" if $given =~ /\b([a-z_]\w*)\(/;
	}
	close ARGV if eof' $(echo "$code" | grep '^src/extension/')
grep -nE 'PG_VERSION_NUM' $code | grep -v '^src/extension/compat.h:'
# What CREATE EXTENSION must not do: take over an object that somebody put there before it.
grep -nE 'CREATE OR REPLACE|(TABLE|SCHEMA|INDEX|SEQUENCE|VIEW|TYPE) IF NOT EXISTS' src/schema/*.sql
# An internal function that nobody calls: its name stands where it is made, commented and revoked, and nowhere else.
{
	sed -n 's/^CREATE FUNCTION amoro_meta\.\([a-z0-9_]*\)(.*/made \1/p' src/schema/*.sql
	grep -ohE '\bamoro_meta\.[a-z0-9_]+' src/schema/*.sql $(echo "$code" | grep '^src/extension/') | sed 's/amoro_meta\./named /'
} | awk '$1 == "made" { made[$2] = 1 } $1 == "named" { named[$2]++ }
	END { for (name in made) if (named[name] <= 3) print "src/schema: nobody calls amoro_meta." name }'
# The install script is read in the encoding of the database, and messages are sent in it.
LC_ALL=C grep -nP '[^\x00-\x7F]' src/schema/*.sql src/extension/*.[ch] src/extension/*/*.[ch] | cut -c1-150
exit 0
