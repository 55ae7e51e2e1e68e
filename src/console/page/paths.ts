/** The place of the page: a workspace (null: the platform), the view, and the rest of the path. */
export interface Place {
  readonly workspace: string | null
  readonly view: string
  readonly rest: readonly string[]
}

/** First segments that name no workspace. */
const RESERVED: ReadonlySet<string> = new Set([
  'api',
  'assets',
  'audit',
  'live',
  'overview',
  'providers',
  'requests',
  'sessions',
  'setup',
  'usage',
  'workspaces',
])

/**
 * The path of a place in the console. A workspace whose name is reserved is written with "~" before it, which no name
 * begins with.
 */
export function pathOf(workspace: string | null, view = 'overview', ...rest: readonly string[]): string {
  const first = workspace === null ? [] : [RESERVED.has(workspace) ? `~${workspace}` : workspace]
  return ['/console', ...[...first, view, ...rest].map(encodeURIComponent)].join('/')
}

/** The place that a path leads to; null: `/console` itself. */
export function placeOfPath(path: string): Place | null {
  const segments = path
    .replace(/^\/console/, '')
    .split('/')
    .filter(Boolean)
    .map(decoded)
  const [first, view = 'overview', ...rest] = segments
  if (first === undefined) return null
  if (RESERVED.has(first)) return { workspace: null, view: first, rest: segments.slice(1) }
  return { workspace: first.replace(/^~/, ''), view, rest }
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}

/**
 * Where the records of a request are, by the id that its caller was told. Callers choose ids: one of dots alone would
 * lead elsewhere as a part of a path.
 */
export function requestPath(workspace: string, id: string): string {
  const requests = pathOf(workspace, 'requests')
  return /^\.+$/.test(id) ? requests + queryOf({ id }) : pathOf(workspace, 'requests', id)
}

/** Path and query for the console's API, each part encoded: apiPath`/workspaces/${id}/routes`. */
export function apiPath(strings: TemplateStringsArray, ...parts: readonly string[]): string {
  return strings.reduce((path, string, index) => path + encodeURIComponent(parts[index - 1] ?? '') + string)
}

/** The API path of a provider: as a workspace has it, or (null) as operators have every one. */
export function providerPath(workspace: string | null, name: string): string {
  return workspace === null
    ? apiPath`/providers/${name}`
    : apiPath`/workspaces/${workspace}/providers/${name}`
}

/** In an address, a field that records have no value of: an empty field would be left out. */
export const NONE = '~none'

/** `?a=1&b=2`; empty and absent values are left out. */
export function queryOf(fields: Readonly<Record<string, string | number | null | undefined>>): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(fields))
    if (value !== null && value !== undefined && value !== '') query.set(name, String(value))
  const text = query.toString()
  return text === '' ? '' : `?${text}`
}
