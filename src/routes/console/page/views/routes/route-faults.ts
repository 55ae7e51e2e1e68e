/** What stands in the way of publishing a route, put where it belongs. */
export interface RouteFaults {
  /** Place of the entry → name of the field (`''`: the entry itself) → what is wrong, in order. */
  readonly entries: ReadonlyMap<number, ReadonlyMap<string, readonly string[]>>
  /** Name of a field of the route → what is wrong. */
  readonly fields: ReadonlyMap<string, readonly string[]>
  /** What is about something else than this route, or about it as a whole. */
  readonly others: readonly string[]
}

/**
 * Reads lines such as `/entries/0/model: is not in the built-in table`, with or without `/routes/<name>` before it.
 *
 * @param route its whole name
 */
export function readFaults(lines: readonly string[], route: string): RouteFaults {
  const entries = new Map<number, Map<string, string[]>>()
  const fields = new Map<string, string[]>()
  const others: string[] = []
  for (const line of lines) {
    const { path, message } = split(line, route)
    const [head, second, third, ...deeper] = path
    const index = Number(second)
    if (head === 'entries' && second !== undefined && Number.isInteger(index)) {
      const ofEntry = entries.get(index) ?? new Map<string, string[]>()
      entries.set(index, ofEntry)
      addTo(ofEntry, third ?? '', deeper.length === 0 ? message : `${deeper.join(' → ')}: ${message}`)
    } else if (head !== undefined && ROUTE_FIELDS.includes(head)) addTo(fields, head, message)
    else others.push(head === undefined ? message : line)
  }
  return { entries, fields, others }
}

const ROUTE_FIELDS = ['entries', 'strategy', 'published', 'workspace']

/** What is wrong with one field of an entry. */
export function faultsOfEntry(faults: RouteFaults, index: number, field: string): readonly string[] {
  return faults.entries.get(index)?.get(field) ?? []
}

/** How many faults an entry has in all. */
export function faultCount(faults: RouteFaults, index: number): number {
  return [...(faults.entries.get(index)?.values() ?? [])].reduce((sum, lines) => sum + lines.length, 0)
}

function split(line: string, route: string): { path: readonly string[]; message: string } {
  const end = line.indexOf(': ')
  if (!line.startsWith('/') || end < 0) return { path: [], message: line }
  const path = line
    .slice(0, end)
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .filter((part) => part !== '')
  const own = path[0] === 'routes' && path[1] === route
  return { path: own ? path.slice(2) : path, message: line.slice(end + 2) }
}

function addTo(map: Map<string, string[]>, name: string, message: string): void {
  map.set(name, [...(map.get(name) ?? []), message])
}
