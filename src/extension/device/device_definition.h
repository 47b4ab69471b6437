/*
 * device_definition.h
 *		Schemas of devices and templates: measurements, validated at the door, stored in one canonical form.
 */
#ifndef AMORO_META_DEVICE_DEFINITION_H
#define AMORO_META_DEVICE_DEFINITION_H

#include "postgres.h"

#include "json/json_place.h"
#include "nodes/pg_list.h"
#include "utils/jsonb.h"

typedef struct MeasurementType MeasurementType;

typedef struct Measurement
{
	char	   *name;			/* a node of a path, in its canonical form, as is the alias */
	const MeasurementType *type;
	const char *encoding;
	const char *compression;
	char	   *alias;			/* NULL: none */
	List	   *tags;			/* Property */
	List	   *attributes;		/* Property */
} Measurement;

typedef struct DeviceDefinition
{
	bool		aligned;		/* its measurements are written together */
	List	   *measurements;	/* Measurement, in the order in which they came */
} DeviceDefinition;

/* device_measurement.c */
extern Measurement *measurement_read(const JsonPlace *place);
extern void measurement_write(JsonbParseState **state, const Measurement *measurement);
/* Sets what the members "encoding" and "compression" of an object say; without them the defaults of the type. */
extern void measurement_read_encoding(const JsonPlace *object, Measurement *measurement);
/* Raises 22023 unless the values that are there can be read as the new type; sets it, and an encoding that it knows. */
extern void measurement_retype(const JsonPlace *type, Measurement *measurement);

/* device_definition.c: all raise 22023 with the place of what is wrong */

/* What a user gave, in canonical form; at least one measurement. */
extern Jsonb *device_definition_check(Jsonb *input);
/* Reads the members "aligned" and "measurements". */
extern DeviceDefinition *device_definition_read(const JsonPlace *document);
extern Jsonb *device_definition_write(const DeviceDefinition *definition);
/* Refuses two measurements or aliases of one name, in one definition or in both; other may be NULL. */
extern void device_definition_require_distinct(const JsonPlace *place, const DeviceDefinition *definition,
											   const DeviceDefinition *other);
/*
 * Refuses a device that cannot have the measurements of a template as well: with a name of one of them, or aligned
 * otherwise. Both are canonical.
 */
extern void device_definition_require_apart(Jsonb *definition, Jsonb *template);
/* NULL when there is none of that name, nor with that alias */
extern Measurement *device_definition_find(const DeviceDefinition *definition, const char *name);

/* device_change.c */

/*
 * Applies a list of changes to a canonical definition, in order; all or nothing. template: the definition of the
 * template that is active on the device, which no name may clash with, or NULL.
 */
extern Jsonb *device_definition_alter(Jsonb *definition, Jsonb *template, Jsonb *changes);
/* Raises 22023 unless the changes are a list of well-formed ones. */
extern void device_changes_check(Jsonb *changes);

#endif							/* AMORO_META_DEVICE_DEFINITION_H */
