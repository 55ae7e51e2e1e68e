import { isDeepStrictEqual } from 'node:util'
import type { AppPrincipal, Entry, Principal, Route } from '../../contracts/catalog.ts'
import type { ServedCatalog } from '../../contracts/catalog-service.ts'
import { canonicalJson } from '../../contracts/json.ts'

/**
 * Takes what was made anew, and gives the same part of the snapshot before where nothing about it has changed. Others
 * remember by the identity of an entry how it fares, and by that of a principal what they told it.
 */
export interface Sharing {
  route(made: Route): Route
  app(made: AppPrincipal): AppPrincipal
  /** @param made of an app that was shared */
  principal(sha256: string, made: Principal): Principal
}

/** For the first snapshot. */
export const NOTHING_SHARED: Sharing = {
  route: (made) => made,
  app: (made) => made,
  principal: (_sha256, made) => made,
}

export function shareWith({ snapshot, routes }: ServedCatalog): Sharing {
  const known = new Map(routes.map((route) => [route.name, route]))
  return {
    route(made) {
      const before = known.get(made.name)
      if (before === undefined) return made
      return isDeepStrictEqual(before, made) ? before : { ...made, entries: sharedEntries(before, made) }
    },
    app(made) {
      const before = snapshot.apps.get(made.workspace.id)?.get(made.app.id)
      // Routes that were shared are identical, which is what comparing them begins with.
      return before !== undefined && isDeepStrictEqual(before, made) ? before : made
    },
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
