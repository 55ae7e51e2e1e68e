/** What a part of a configuration refers to by its name. */
type Kind = 'route' | 'provider'

/** The fault of a name that nothing has. */
export function unknownPart(kind: Kind, name: string): string {
  return `there is no ${kind} "${name}"`
}

/** The fault of a name that only another workspace may use. */
export function foreignPart(kind: Kind, name: string): string {
  return `the ${kind} "${name}" belongs to another workspace`
}

const FOREIGN = /\bthe (route|provider) "([^"]*)" belongs to another workspace$/

/** A line that ends with a fault, for a reader who may not learn what others have: what is theirs is not there. */
export function withoutForeign(line: string): string {
  return line.replace(FOREIGN, (_, kind: Kind, name: string) => unknownPart(kind, name))
}
