/** Unknown fields that are named to the caller, and how much of a name. */
const NAMED = 20
const NAME_LENGTH_SHOWN = 64

/**
 * Lines for `warnings`, few and short however many fields there are.
 *
 * @param known names that the endpoint takes: one that is close to an unknown one is offered
 */
export function unknownFields(names: readonly string[], known: readonly string[]): string[] {
  const lines = names.slice(0, NAMED).map((name) => {
    const meant = meantBy(name, known)
    const shown = name.slice(0, NAME_LENGTH_SHOWN).toWellFormed()
    return `${shown}: unknown field, ignored${meant === null ? '' : `; did you mean ${meant}?`}`
  })
  if (names.length > NAMED) lines.push(`${names.length - NAMED} further unknown fields, ignored`)
  return lines
}

/** The known name that a misspelled one is closest to; null when it is close to none. */
export function meantBy(name: string, known: readonly string[]): string | null {
  if (name.length > NAME_LENGTH_SHOWN) return null
  const given = plain(name)
  // Of short names nearly any is a letter or two from another.
  const most = given.length < 4 ? 0 : given.length < 8 ? 1 : 2
  const close = known
    .map((candidate) => ({ candidate, distance: distanceOf(given, plain(candidate), most) }))
    .filter(({ distance }) => distance <= most)
    .sort((a, b) => a.distance - b.distance)
  return close[0]?.candidate ?? null
}

/** Without what differs between ways to write the same name: `responseFormat`, `response-format`. */
function plain(name: string): string {
  return name.toLowerCase().replace(/[_\s-]|\[\]$/g, '')
}

/** Letters to put in, take out, change or swap with their neighbour; over `most` when there are more. */
function distanceOf(a: string, b: string, most: number): number {
  if (Math.abs(a.length - b.length) > most) return most + 1
  let before: number[] = []
  let last = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i]
    for (let j = 1; j <= b.length; j += 1) {
      const same = a[i - 1] === b[j - 1]
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      const steps = [row[j - 1]! + 1, last[j]! + 1, last[j - 1]! + (same ? 0 : 1)]
      row.push(Math.min(...steps, swapped ? before[j - 2]! + 1 : Number.POSITIVE_INFINITY))
    }
    before = last
    last = row
  }
  return last[b.length]!
}
