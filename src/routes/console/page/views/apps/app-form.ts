import type { AppFields } from '../../../../../catalog/file.ts'
import type { Capability } from '../../../../../schema/calls.ts'

/** An app while it is edited; an empty route is none. */
export interface AppForm {
  readonly id: string
  readonly route: string
  readonly capabilityRoutes: Readonly<Partial<Record<Capability, string>>>
  readonly purposes: Readonly<Record<string, string>>
}

export function formOf(id: string, fields: AppFields | null): AppForm {
  return {
    id,
    route: fields?.route ?? '',
    capabilityRoutes: fields?.capability_routes ?? {},
    purposes: fields?.purposes ?? {},
  }
}

/** As it is saved: what leads nowhere is left out. */
export function fieldsOf({ route, capabilityRoutes, purposes }: AppForm): AppFields {
  const [capabilities, bindings] = [leading(capabilityRoutes), leading(purposes)]
  return {
    route,
    ...(capabilities === null ? {} : { capability_routes: capabilities }),
    ...(bindings === null ? {} : { purposes: bindings }),
  }
}

/** Names of apps and purposes, as the catalog takes them. */
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/

/** What is wrong with a new name; null: nothing. */
export function newNameFault(name: string, taken: readonly string[]): string | null {
  if (name === '') return 'Enter a name.'
  if (!NAME.test(name))
    return 'Use up to 64 letters, digits, ".", "_" and "-", starting with a letter or digit.'
  return taken.includes(name) ? `"${name}" already exists.` : null
}

function leading(routes: Readonly<Record<string, string | undefined>>): Record<string, string> | null {
  const set = Object.entries(routes).flatMap(([name, route]) => (route ? [[name, route] as const] : []))
  return set.length === 0 ? null : Object.fromEntries(set)
}
