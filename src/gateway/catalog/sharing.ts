import { isDeepStrictEqual } from 'node:util'
import type { AppPrincipal, ConfiguredProvider, Entry, Principal, Route } from '../../contracts/catalog.ts'
import type { ServedCatalog } from '../../contracts/catalog-service.ts'
import { canonicalJson } from '../../contracts/json.ts'
import type { Issues } from './issues.ts'

/**
 * Takes what was made anew, and gives the same part of the snapshot before where nothing about it has changed. Others
 * remember by the identity of an entry how it fares, and by that of a principal what they told it.
 */
export interface Sharing {
  provider(made: ConfiguredProvider): ConfiguredProvider
  route(made: Route): Route
  app(made: AppPrincipal): AppPrincipal
  /** @param made of an app that was shared */
  principal(sha256: string, made: Principal): Principal
}

/** For the first snapshot. */
export const NOTHING_SHARED: Sharing = {
  provider: (made) => made,
  route: (made) => made,
  app: (made) => made,
  principal: (_sha256, made) => made,
}

/** The thing from before where it is equal, else the one that was made. */
export function kept<Part>(before: Part | undefined, made: Part): Part {
  return before !== undefined && isDeepStrictEqual(before, made) ? before : made
}

export function shareWith({ snapshot, routes, providers }: ServedCatalog): Sharing {
  const accounts = new Map(providers.map((provider) => [provider.name, provider]))
  const known = new Map(routes.map((route) => [route.name, route]))
  return {
    // Entries whose providers are identical are compared without a look into these.
    provider: (made) => kept(accounts.get(made.name), made),
    route(made) {
      const before = known.get(made.name)
      if (before === undefined) return made
      return isDeepStrictEqual(before, made) ? before : { ...made, entries: sharedEntries(before, made) }
    },
    // Routes that were shared are identical, which is what comparing them begins with.
    app: (made) => kept(snapshot.apps.get(made.workspace.id)?.get(made.app.id), made),
    principal(sha256, made) {
      const before = snapshot.keys.get(sha256)
      if (before === undefined || !isDeepStrictEqual(before.key, made.key)) return made
      return isOfSameApp(before, made) ? before : made
    },
  }
}

/** Whether they were made of one and the same `AppPrincipal`. */
export function isOfSameApp(one: AppPrincipal, other: AppPrincipal): boolean {
  return (
    one.workspace === other.workspace &&
    one.app === other.app &&
    one.limits === other.limits &&
    one.route === other.route &&
    one.capabilityRoutes === other.capabilityRoutes &&
    one.purposes === other.purposes
  )
}

/**
 * Remembers for each part of a document the thing that was made of it. A change of the catalog makes all of it anew, on
 * the thread that serves, and most parts are what they were: nothing changes a document, so they are told by identity.
 *
 * @returns a function that makes a thing, or returns the one that is remembered. `basis` is all else that it is made
 *   of, by identity; nothing is remembered that comes with an issue, which is told each time
 */
export function remembering<Made>() {
  const known = new WeakMap<object, { readonly basis: readonly unknown[]; readonly made: Made }>()
  return (part: unknown, make: () => Made, basis: readonly unknown[] = [], issues?: Issues): Made => {
    if (typeof part !== 'object' || part === null) return make()
    const before = known.get(part)
    if (before?.basis.length === basis.length && before.basis.every((one, at) => one === basis[at]))
      return before.made
    const count = issues?.found.length
    const made = make()
    if (issues?.found.length === count) known.set(part, { basis, made })
    return made
  }
}

/**
 * An entry that stayed, though others of its route did not: it may have moved. Found by its text, since a route may
 * have any number of entries.
 */
function sharedEntries(before: Route, made: Route): Entry[] {
  const rest = Map.groupBy(before.entries, canonicalJson)
  return made.entries.map((entry) => {
    const alike = rest.get(canonicalJson(entry)) ?? []
    return isDeepStrictEqual(alike[0], entry) ? (alike.shift() ?? entry) : entry
  })
}
