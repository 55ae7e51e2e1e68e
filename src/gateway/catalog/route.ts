import { hash } from 'node:crypto'
import type { CacheTerms, Entry, Route, Shadow } from '../../contracts/catalog.ts'
import { canonicalJson } from '../../contracts/json.ts'
import { TRANSCRIPTION_TASKS } from '../../contracts/operations.ts'
import { hasShape } from '../../contracts/shape.ts'
import { resolveFacts } from './facts.ts'
import type { EntryFields, RouteFields } from './file.ts'
import { checkBounds, checkShape, type Issues, type Path } from './issues.ts'
import type { Named, RouteDefinition, WorkspaceDefinition } from './parts.ts'
import { foreignPart, unknownPart } from './parts.ts'
import { type ProviderContext, providerBasis, type ResolvedProvider } from './provider.ts'
import { remembering, type Sharing } from './sharing.ts'

/** Parts of the file that a route may refer to. */
export interface RouteContext {
  readonly providers: Named<ResolvedProvider>
  readonly plans: ReadonlyMap<string, unknown>
  /** The route's own; undefined: there is none of that name, null: it has not the right shape. */
  readonly workspace: WorkspaceDefinition | null | undefined
  readonly surroundings: ProviderContext
  readonly sharing: Sharing
}

const routeOf = remembering<Route | null>()

/** Builds a route from its parts. Null when they are invalid; every reason is added to `issues`. */
export function resolveRoute(
  name: string,
  parts: RouteDefinition,
  context: RouteContext,
  issues: Issues,
): Route | null {
  const { workspace, providers, plans, surroundings } = context
  const entries = [...parts.entries, parts.fields.shadow?.entry]
  const basis = [
    ...[name, workspace, surroundings.models, surroundings.env],
    ...entries.flatMap((entry) => providerBasis(entry && providers.get(entry.provider))),
    ...entries.flatMap((entry) => entry?.plans ?? []).map((plan) => plans.has(plan)),
  ]
  const make = () => {
    const made = makeRoute(name, parts, context, issues)
    return made && context.sharing.route(made)
  }
  return routeOf(parts, make, basis, issues)
}

function makeRoute(
  name: string,
  { fields, entries }: RouteDefinition,
  context: RouteContext,
  issues: Issues,
): Route | null {
  const path = ['routes', name]
  const {
    workspace,
    strategy = 'priority',
    published = true,
    live_fallback: liveFallback = 'none',
    cache,
    skip_silence: skips,
    transcode,
  } = fields
  if (context.workspace === undefined)
    issues.add([...path, 'workspace'], `there is no workspace "${workspace}"`)
  checkBounds(fields.accept?.words_per_second, [...path, ...RATE], issues)

  const resolved = entries.map((entry, index) =>
    entry === null ? null : resolveEntry(fields, entry, context, [...path, 'entries', index], issues),
  )
  const whole = resolved.filter((entry) => entry !== null)
  if (whole.length < resolved.length) return null
  const shadow = resolveShadow(fields, context, [...path, 'shadow'], issues)
  if (fields.shadow !== undefined && shadow === null) return null
  const version = routeVersion(name, fields, entries)
  const named = { name, workspace, strategy, published, liveFallback, shadow, version, entries: whole }
  return {
    ...named,
    ...(skips === true ? { skipsSilence: skips } : {}),
    ...(transcode === true ? { transcodes: transcode } : {}),
    ...(cache === undefined ? {} : { cache: cacheTerms(cache) }),
  }
}

const RATE = ['accept', 'words_per_second']
const CACHE_SECONDS = 24 * 3600
const CACHE_BYTES = 1024 ** 3
const REFERENCE_SECONDS = 7 * 24 * 3600

function cacheTerms({
  ttl_seconds: ttlSeconds = CACHE_SECONDS,
  max_bytes: maxBytes = CACHE_BYTES,
}: NonNullable<RouteFields['cache']>): CacheTerms {
  return { ttlSeconds, maxBytes }
}

/** The shadow of a route; null: it has none, or none that is valid. */
function resolveShadow(
  { shadow, workspace }: Omit<RouteFields, 'entries'>,
  context: RouteContext,
  path: Path,
  issues: Issues,
): Shadow | null {
  if (shadow === undefined) return null
  checkNames({ purposes: shadow.purposes ?? [] }, context, path, issues)
  // Rules that judge answers of the route say nothing of one that is only compared.
  const entry = resolveEntry({ workspace }, shadow.entry, context, [...path, 'entry'], issues)
  if (entry === null) return null
  if (entry.provider.concurrency !== null)
    issues.add(
      [...path, 'entry', 'provider'],
      'must be one without concurrency: calls wait for its permits, and a shadow may take none of them',
    )
  const { share, operations = TRANSCRIPTION_TASKS, purposes = [], references } = shadow
  const kept = references && { ttlSeconds: references.ttl_seconds ?? REFERENCE_SECONDS }
  return { entry, share, operations, purposes, references: kept ?? null }
}

/**
 * `pv_…` of a route, out of what is written alone: whether it could be served does not count. Nor does its shadow,
 * which has no part in any answer.
 */
export function routeVersion(
  name: string,
  {
    workspace,
    strategy = 'priority',
    published = true,
    live_fallback,
    accept,
    cache,
    encode,
    skip_silence,
    transcode,
  }: Omit<RouteFields, 'entries'>,
  entries: readonly (EntryFields | null)[],
): string {
  const rest = canonicalJson({
    name,
    workspace,
    strategy,
    published,
    // Versions of routes from before this was there stay what they were.
    ...(live_fallback === 'batch' ? { live_fallback } : {}),
    ...(accept === undefined ? {} : { accept }),
    ...(cache === undefined ? {} : { cache }),
    ...(encode === true ? { encode } : {}),
    ...(skip_silence === true ? { skip_silence } : {}),
    ...(transcode === true ? { transcode } : {}),
  })
  return splitVersion(`{"entries":[${entries.map(entryText).join(',')}],${rest.slice(1)}`)
}

function resolveEntry(
  { workspace, accept, encode }: Pick<RouteFields, 'workspace' | 'accept' | 'encode'>,
  fields: EntryFields,
  context: RouteContext,
  path: Path,
  issues: Issues,
): Entry | null {
  const provider = context.providers.get(fields.provider)
  if (provider === undefined) issues.add([...path, 'provider'], unknownPart('provider', fields.provider))
  checkNames(fields, context, path, issues)
  if (provider === undefined || provider === null) return null

  const { configured, protocol } = provider
  if (configured.access === 'byok' && configured.workspace !== workspace) {
    issues.add([...path, 'provider'], foreignPart('provider', fields.provider))
    // Further issues would reveal its kind.
    return null
  }
  checkBounds(fields.accept?.words_per_second, [...path, ...RATE], issues)
  checkOptions(fields, provider, path, issues)
  checkPull(fields, provider, context, path, issues)
  checkCutThrough(fields, provider, path, issues)
  const table = context.surroundings.models.factsOf(protocol.kind, fields.model)
  const prices = context.workspace?.fields.prices
  const facts = resolveFacts(provider, fields, { table, prices }, path, issues)
  if (facts === null) return null
  return {
    provider: configured,
    model: fields.model,
    facts,
    weight: fields.weight ?? 1,
    profile: fields.profile ?? null,
    purposes: fields.purposes ?? [],
    plans: fields.plans ?? [],
    pinned: fields.pinned ?? false,
    voices: fields.voices ?? {},
    retryEmpty: fields.retry_empty ?? false,
    accept: fields.accept ?? accept ?? null,
    pull: fields.pull ?? false,
    cutThrough: fields.cut_through ?? false,
    ...(encode === true ? { encode } : {}),
    options: fields.options ?? {},
    ...(fields.ends_on === undefined ? {} : { endsOn: fields.ends_on }),
  }
}

function checkNames(
  { purposes = [], plans = [] }: Pick<EntryFields, 'purposes' | 'plans'>,
  context: RouteContext,
  path: Path,
  issues: Issues,
): void {
  const { workspace } = context
  for (const [index, purpose] of purposes.entries())
    if (workspace && !Object.hasOwn(workspace.fields.purposes ?? {}, purpose))
      issues.add([...path, 'purposes', index], `the workspace declares no purpose "${purpose}"`)
  for (const [index, plan] of plans.entries())
    if (!context.plans.has(plan)) issues.add([...path, 'plans', index], `there is no plan "${plan}"`)
}

function checkOptions(
  { options }: EntryFields,
  { protocol }: ResolvedProvider,
  path: Path,
  issues: Issues,
): void {
  if (options === undefined) return
  const at = [...path, 'options']
  if (protocol.optionsSchema !== undefined) {
    if (!hasShape(protocol.optionsSchema, options)) checkShape(protocol.optionsSchema, options, at, issues)
  } else if (Object.keys(options).length > 0)
    issues.add(at, `must be left out: the kind "${protocol.kind}" takes no options`)
}

/** Refuses to hand out URLs that the provider could not take, or not open. */
function checkPull(
  { pull }: EntryFields,
  { protocol }: ResolvedProvider,
  { surroundings: { env } }: RouteContext,
  path: Path,
  issues: Issues,
): void {
  if (pull !== true) return
  const at = [...path, 'pull']
  if (protocol.transcription?.takesAudioUrl !== true)
    issues.add(at, `must be left out: the kind "${protocol.kind}" takes no URL of audio`)
  if (!env.S3_BUCKET || !env.S3_PUBLIC_ENDPOINT)
    issues.add(at, 'needs a bucket whose public endpoint is set: S3_BUCKET and S3_PUBLIC_ENDPOINT')
}

/** Refuses to begin what may be billed before it is known to be right, and what would never begin. */
function checkCutThrough(
  { cut_through, pull }: EntryFields,
  { protocol }: ResolvedProvider,
  path: Path,
  issues: Issues,
): void {
  if (cut_through !== true) return
  const at = [...path, 'cut_through']
  if (protocol.transcription?.billsWholeBody === undefined)
    issues.add(at, `must be left out: the kind "${protocol.kind}" may bill an upload that breaks off`)
  if (pull === true) issues.add(at, 'must be left out beside pull: the audio is either sent or fetched')
}

/** By their fields, which never change: every change makes a new catalog, mostly of the same fields. */
const entryTexts = new WeakMap<EntryFields, string>()

/** Canonical JSON of an entry. */
function entryText(entry: EntryFields | null): string {
  const known = entry === null ? undefined : entryTexts.get(entry)
  if (known !== undefined) return known
  const text = canonicalJson(canonicalEntry(entry))
  if (entry !== null) entryTexts.set(entry, text)
  return text
}

/** An entry with its defaults filled in, in the words of the file; sets in one order. */
function canonicalEntry(entry: EntryFields | null): unknown {
  // Versions of routes from before these were there stay what they were.
  const { pull, cut_through, ...rest } = entry ?? {}
  return {
    weight: 1,
    profile: null,
    pinned: false,
    voices: {},
    retry_empty: false,
    options: {},
    ...rest,
    ...(pull === true ? { pull } : {}),
    ...(cut_through === true ? { cut_through } : {}),
    purposes: [...(entry?.purposes ?? [])].sort(),
    plans: [...(entry?.plans ?? [])].sort(),
  }
}

/**
 * `pv_` and 16 hex characters, out of the route as it is written, defaults filled in. Providers count by their names
 * alone, so that no credential or address is part of it; routes that say the same have the same version on every node.
 *
 * @param route in canonical JSON
 */
function splitVersion(route: string): string {
  const digest = hash('sha256', route)
  return `pv_${digest.slice(0, 16)}`
}
