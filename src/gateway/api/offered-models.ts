import type { Entry, Principal } from '../../contracts/catalog.ts'
import { entitledEntries } from '../call/select/eligibility.ts'
import { isUsable } from '../call/select/selection.ts'

/** A name that clients may send as their model. */
export interface OfferedModel {
  readonly id: string
  /** The provider, or of a purpose the workspace. */
  readonly owner: string
  /** Entries that it may lead to. */
  readonly entries: readonly Entry[]
}

/**
 * Lists what can serve a key: first the purposes, which are what a model's name chooses, then the models of its routes,
 * which the routes choose among. Of a provider no more is told than its name, as every answer tells it.
 */
export function offeredModels(principal: Principal): readonly OfferedModel[] {
  const { route, capabilityRoutes, purposes, workspace } = principal
  const usable = purposes.filter((purpose) => isUsable(purpose, workspace))
  const routes = [route, ...capabilityRoutes.values(), ...usable.flatMap((purpose) => purpose.route ?? [])]
  const entries = [...new Set(routes.flatMap((each) => entitledEntries(each, workspace)))]
  const models = new Map<string, OfferedModel>()
  for (const purpose of usable) {
    const own = purpose.route === null ? [] : entitledEntries(purpose.route, workspace)
    models.set(purpose.purpose, { id: purpose.purpose, owner: workspace.id, entries: own })
  }
  for (const entry of entries) {
    const known = models.get(entry.model)
    if (known === undefined)
      models.set(entry.model, { id: entry.model, owner: entry.provider.name, entries: [entry] })
    else if (!known.entries.includes(entry))
      models.set(entry.model, { ...known, entries: [...known.entries, entry] })
  }
  return [...models.values()]
}

/** Names of voices that entries of the key's routes know, each with the models that have it. */
export function offeredVoices(principal: Principal): ReadonlyMap<string, readonly string[]> {
  const voices = new Map<string, readonly string[]>()
  const speaking = offeredModels(principal)
    .flatMap(({ entries }) => entries)
    .filter(({ facts }) => facts.capabilities.includes('audio_output'))
  for (const { model, voices: own, facts } of new Set(speaking))
    for (const name of [...Object.keys(own), ...(facts.limits.voices ?? [])]) {
      const known = voices.get(name) ?? []
      if (!known.includes(model)) voices.set(name, [...known, model])
    }
  return voices
}
