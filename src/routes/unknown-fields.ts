/** Unknown fields that are named to the caller, and how much of a name. */
const NAMED = 20
const NAME_LENGTH_SHOWN = 64

/** Lines for `warnings`, few and short however many fields there are. */
export function unknownFields(names: readonly string[]): string[] {
  const lines = names
    .slice(0, NAMED)
    .map((name) => `${name.slice(0, NAME_LENGTH_SHOWN).toWellFormed()}: unknown field, ignored`)
  if (names.length > NAMED) lines.push(`${names.length - NAMED} further unknown fields, ignored`)
  return lines
}
