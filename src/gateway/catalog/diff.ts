import { isDeepStrictEqual } from 'node:util'
import type { Entry, Route, Shadow } from '../../contracts/catalog.ts'

/** Changes to one route between two configurations. */
export interface RouteChange {
  readonly workspace: string
  readonly name: string
  /** Version before; null for a new route. */
  readonly before: string | null
  /** Version after; null for a route that is gone. */
  readonly after: string | null
  /** A line per difference, e.g. `entry 2 removed: openai/whisper-1`. */
  readonly lines: readonly string[]
}

/** Settings of an entry that a change of is told one by one, in the words of the file. */
const SETTINGS = {
  weight: (entry: Entry) => entry.weight,
  profile: (entry: Entry) => entry.profile,
  purposes: (entry: Entry) => [...entry.purposes].sort(),
  plans: (entry: Entry) => [...entry.plans].sort(),
  pinned: (entry: Entry) => entry.pinned,
  voices: (entry: Entry) => entry.voices,
  retry_empty: (entry: Entry) => entry.retryEmpty,
  accept: (entry: Entry) => entry.accept,
  pull: (entry: Entry) => entry.pull,
  cut_through: (entry: Entry) => entry.cutThrough,
  ends_on: (entry: Entry) => entry.endsOn ?? null,
  options: (entry: Entry) => entry.options,
} satisfies Record<string, (entry: Entry) => unknown>

/**
 * Lists changed routes by workspace and name. Known capabilities and prices of models count too: they decide who
 * serves, though facts of the built-in table are no part of a version.
 */
export function diffRoutes(before: readonly Route[], after: readonly Route[]): RouteChange[] {
  const [old, now] = [byName(before), byName(after)]
  const names = [...new Set([...old.keys(), ...now.keys()])].sort()
  return names.flatMap((name) => {
    const change = diffRoute(old.get(name), now.get(name))
    return change === null ? [] : [change]
  })
}

function byName(routes: readonly Route[]): ReadonlyMap<string, Route> {
  return new Map(routes.map((route) => [`${route.workspace}/${route.name}`, route]))
}

function diffRoute(before: Route | undefined, after: Route | undefined): RouteChange | null {
  const any = before ?? after
  if (any === undefined) return null
  const common = {
    workspace: any.workspace,
    name: any.name,
    before: before?.version ?? null,
    after: after?.version ?? null,
  }
  if (before === undefined || after === undefined) {
    const what = before === undefined ? 'added' : 'removed'
    return {
      ...common,
      lines: any.entries.map((entry, index) => `entry ${index + 1} ${what}: ${entryName(entry)}`),
    }
  }
  const lines = [
    ...changed('strategy', before.strategy, after.strategy),
    ...changed('published', before.published, after.published),
    ...changed('live_fallback', before.liveFallback, after.liveFallback),
    ...changed('cache', before.cache, after.cache),
    ...changed('encode', encodes(before), encodes(after)),
    ...changed('skip_silence', before.skipsSilence === true, after.skipsSilence === true),
    ...changed('transcode', before.transcodes === true, after.transcodes === true),
    ...diffShadow(before.shadow, after.shadow),
    ...diffEntries(before.entries, after.entries),
  ]
  return lines.length === 0 && before.version === after.version ? null : { ...common, lines }
}

/** True when the route encodes; the setting of a route is copied to each of its entries. */
function encodes({ entries }: Route): boolean {
  return entries.some(({ encode }) => encode === true)
}

function diffShadow(before: Shadow | null, after: Shadow | null): string[] {
  if (before === null || after === null) return changed('shadow', shadowName(before), shadowName(after))
  const [{ entry: old, ...oldTerms }, { entry, ...terms }] = [before, after]
  const same = entryName(old) === entryName(entry)
  return [
    ...changed('shadow', shadowName(before), shadowName(after)),
    ...changed('shadow share', oldTerms.share, terms.share),
    ...changed('shadow operations', oldTerms.operations, terms.operations),
    ...changed('shadow purposes', oldTerms.purposes, terms.purposes),
    ...changed('shadow references', oldTerms.references, terms.references),
    ...(same ? diffEntry({ entry: old, index: 0 }, { entry, index: 0 }).map((line) => `shadow ${line}`) : []),
  ]
}

function shadowName(shadow: Shadow | null): string | null {
  return shadow && entryName(shadow.entry)
}

/** Entries are the same one when provider and model are; of several alike, the first answers to the first. */
function diffEntries(before: readonly Entry[], after: readonly Entry[]): string[] {
  const rest = before.map((entry, index) => ({ entry, index }))
  const lines: string[] = []
  for (const [index, entry] of after.entries()) {
    const at = rest.findIndex((old) => entryName(old.entry) === entryName(entry))
    const [old] = at < 0 ? [] : rest.splice(at, 1)
    if (old === undefined) lines.push(`entry ${index + 1} added: ${entryName(entry)}`)
    else lines.push(...diffEntry(old, { entry, index }))
  }
  return [...rest.map(({ entry, index }) => `entry ${index + 1} removed: ${entryName(entry)}`), ...lines]
}

interface Placed {
  readonly entry: Entry
  readonly index: number
}

function diffEntry(before: Placed, after: Placed): string[] {
  const name = `entry ${after.index + 1} ${entryName(after.entry)}`
  const moved = before.index === after.index ? [] : [`${name} moved from ${before.index + 1}`]
  const settings = Object.entries(SETTINGS).flatMap(([setting, read]) =>
    changed(`${name} ${setting}`, read(before.entry), read(after.entry)),
  )
  const facts = [...new Set([...Object.keys(before.entry.facts), ...Object.keys(after.entry.facts)])].sort()
  const known = facts.flatMap((fact) =>
    changed(`${name} ${fact}`, Reflect.get(before.entry.facts, fact), Reflect.get(after.entry.facts, fact)),
  )
  return [...moved, ...settings, ...known]
}

function changed(what: string, before: unknown, after: unknown): string[] {
  if (isDeepStrictEqual(before, after)) return []
  return [`${what}: ${JSON.stringify(before ?? null)} → ${JSON.stringify(after ?? null)}`]
}

function entryName({ provider, model }: Entry): string {
  return `${provider.name}/${model}`
}
