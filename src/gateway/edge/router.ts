export interface Routable {
  readonly method: string
  /** `/v1/speech`, or with parameters `/v1/jobs/:id`; a last segment `*` takes the rest of the path. */
  readonly path: string
}

export type Found<Route> =
  | Served<Route>
  /** No route has this path: `allow` is empty. Else the methods that the path takes, for the header `Allow`. */
  | { readonly route: null; readonly allow: string }

interface Served<Route> {
  readonly route: Route
  readonly params: readonly string[]
}

/** The routes of a path by their methods, as they are found where the path has no parameters. */
type Methods<Route> = Map<string, Served<Route>>

interface Pattern<Route> {
  readonly segments: readonly string[]
  readonly methods: Methods<Route>
}

/** Longer ones are not repeated to the caller. */
const COMPLETED_LENGTH_MAX = 200
export const NO_PARAMS: readonly string[] = Object.freeze([])

/**
 * Finds the route of a method and path. Paths without parameters come first, then patterns in the order
 * given. HEAD is served by the GET route of the same path.
 */
export class Router<Route extends Routable> {
  readonly #plain = new Map<string, Methods<Route>>()
  readonly #patterns: Pattern<Route>[] = []

  /** @throws Error when two routes have the same method and path */
  constructor(routes: readonly Route[]) {
    for (const route of routes) {
      const methods = this.#methodsOf(route.path)
      if (methods.has(route.method)) throw new Error(`two routes for ${route.method} ${route.path}`)
      methods.set(route.method, { route, params: NO_PARAMS })
    }
  }

  find(method: string, path: string): Found<Route> {
    const wanted = method === 'HEAD' ? 'GET' : method
    const plain = this.#plain.get(path)
    const served = plain?.get(wanted)
    if (served !== undefined) return served

    const allowed = new Set(plain?.keys())
    for (const { segments, methods } of this.#patterns) {
      const params = match(segments, path)
      if (params === null) continue
      const parametric = methods.get(wanted)
      if (parametric !== undefined) return { route: parametric.route, params }
      for (const name of methods.keys()) allowed.add(name)
    }
    if (allowed.has('GET')) allowed.add('HEAD')
    return { route: null, allow: [...allowed].sort().join(', ') }
  }

  /** The whole path that an unknown one is the end of, `/openai/v1/models` for `/v1/models`; null: there is none. */
  completed(path: string): string | null {
    if (path.length < 2 || path.length > COMPLETED_LENGTH_MAX) return null
    for (const plain of this.#plain.keys()) if (plain.endsWith(path)) return plain
    const given = path.split('/').length - 1
    for (const { segments } of this.#patterns) {
      const front = segments.slice(0, -given)
      const end = segments.slice(-given)
      // An end made of parameters alone would match everything.
      if (front.length < 2 || front.some(isParameter) || end.every(isParameter)) continue
      if (match(['', ...end], path) !== null) return front.join('/') + path
    }
    return null
  }

  #methodsOf(path: string): Methods<Route> {
    if (!path.startsWith('/')) throw new Error(`the path ${path} does not begin with /`)
    const segments = path.split('/')
    const isPattern = segments.some(isParameter)
    if (!isPattern) return entry(this.#plain, path)
    const known = this.#patterns.find((pattern) => pattern.segments.join('/') === path)
    if (known !== undefined) return known.methods
    const methods: Methods<Route> = new Map()
    this.#patterns.push({ segments, methods })
    return methods
  }
}

function isParameter(segment: string): boolean {
  return segment.startsWith(':') || segment === '*'
}

function entry<Route>(paths: Map<string, Methods<Route>>, path: string): Methods<Route> {
  const methods: Methods<Route> = paths.get(path) ?? new Map()
  paths.set(path, methods)
  return methods
}

/** The parameters, percent-decoded; null when the path is another one or a parameter is empty or badly encoded. */
function match(segments: readonly string[], path: string): string[] | null {
  const parts = path.split('/')
  const open = segments.at(-1) === '*'
  if (open ? parts.length < segments.length : parts.length !== segments.length) return null
  const params: string[] = []
  for (const [index, segment] of segments.entries()) {
    const part = segment === '*' ? parts.slice(index).join('/') : parts[index]
    if (!isParameter(segment)) {
      if (segment !== part) return null
      continue
    }
    const param = decodedPart(part ?? '')
    if (param === null || (param === '' && segment !== '*')) return null
    params.push(param)
  }
  return params
}

function decodedPart(part: string): string | null {
  try {
    return decodeURIComponent(part)
  } catch {
    return null
  }
}
