import { type Static, Type } from 'typebox'
import { GatewayError } from '../../../errors.ts'
import { explainRows } from '../../../gateway/explain.ts'
import { PLAIN_SAMPLE, type Sample, sampleCall } from '../../../gateway/sample.ts'
import { consider } from '../../../gateway/select.ts'
import { invalid } from '../../../inbound/refusals.ts'
import type { EdgeRoute } from '../../../inbound/server.ts'
import { AUDIO_FORMATS } from '../../../schema/audio.ts'
import { FEATURES, HINTS } from '../../../schema/calls.ts'
import { type AppPrincipal, PROFILES, type Principal } from '../../../schema/catalog.ts'
import type { ServedCatalog } from '../../../schema/catalog-desk.ts'
import type { RecordFields } from '../../../schema/catalog-store.ts'
import { OPERATION_NAMES } from '../../../schema/operations.ts'
import type { ConsoleDesk } from '../desk.ts'
import { type ConsoleCall, consoleEndpoint } from '../endpoint.ts'
import type { ExplainAnswer } from './answers.ts'
import { faultsFor } from './faults.ts'
import { operatorFacts } from './operator-facts.ts'
import { requireOwnName } from './own-name.ts'
import { partOf, partsOf } from './parts.ts'
import type { RouteName } from './route-answers.ts'
import { notFound } from './routes.ts'

const PATH = '/workspaces/:workspace/explain'
/** Texts of a sample are really made, and looked at character by character. */
const CHARACTERS_MAX = 200_000
const ALL_CHARACTERS_MAX = 2_000_000

const whole = (minimum: number, maximum: number) => Type.Optional(Type.Integer({ minimum, maximum }))
const word = Type.Optional(Type.String({ minLength: 1, maxLength: 256 }))
const flag = Type.Optional(Type.Boolean())
const closed = { additionalProperties: false }

const AudioSample = Type.Object(
  {
    format: Type.Optional(Type.Enum([...AUDIO_FORMATS])),
    bytes: whole(0, 5 * 1024 ** 3),
    seconds: Type.Optional(Type.Number({ minimum: 0, maximum: 31_536_000 })),
    channels: whole(1, 256),
  },
  closed,
)

const SampleBody = Type.Object(
  {
    purpose: word,
    response_profile: Type.Optional(Type.Enum([...PROFILES])),
    features: Type.Optional(Type.Array(Type.Enum([...FEATURES]), { maxItems: 32 })),
    hints: Type.Optional(Type.Array(Type.Enum([...HINTS]), { maxItems: 32 })),
    language: word,
    audio: Type.Optional(AudioSample),
    characters: whole(0, CHARACTERS_MAX),
    voice: word,
    speed: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 100 })),
    response_format: word,
    images: flag,
    tools: flag,
    spoken: flag,
    size: word,
    duration_seconds: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 86_400 })),
    count: whole(1, 2048),
    dimensions: whole(1, 100_000),
  },
  closed,
)

const Body = Type.Object({
  app: Type.Optional(Type.String({ minLength: 1, maxLength: 64 })),
  endpoint: Type.Enum([...OPERATION_NAMES]),
  sample: Type.Optional(SampleBody),
  route: Type.Optional(Type.String({ minLength: 1, maxLength: 64 })),
  fields: Type.Optional(Type.Object({}, { description: 'the route as it is being edited' })),
})

type Call = ConsoleCall<typeof PATH, Static<typeof Body>, unknown>

/**
 * Which entries would serve a request like the sample, in which order, and why the others would not: of what is in
 * force, or as if the given fields of a route were. Breakers and latencies are those of this node; of weighted entries
 * each goes before the lighter ones.
 */
export function explainEndpoint(desk: ConsoleDesk): EdgeRoute {
  return consoleEndpoint(desk, 'POST', PATH, { body: Body }, explain)
}

async function explain(call: Call): Promise<ExplainAnswer> {
  const { desk, body } = call
  const catalog = await catalogOf(call)
  if ('faults' in catalog) return { refusal: null, entries: [], faults: catalog.faults }
  const principal = principalIn(catalog, call)
  const { services } = desk.doors
  const nowMs = performance.now()
  const { considered, refusal } = consider({
    operation: body.endpoint,
    principal,
    call: sampleCall(body.endpoint, sampleOf(body.sample ?? {})),
    providers: services.providers,
    random: () => 0.5,
    latency: services.latency,
    health: services.health,
    nowMs,
  })
  return {
    refusal: refusal && { code: refusal.code, message: refusal.message },
    entries: explainRows(considered).map((row, index) => {
      const { state } = services.health.view(considered[index]!.entry, nowMs)
      return state === 'closed' ? row : { ...row, breaker: state }
    }),
    faults: [],
  }
}

/** What is in force, with the route as it is given, or drafted where it was never published. */
async function catalogOf(call: Call): Promise<ServedCatalog | { readonly faults: readonly string[] }> {
  const { desk, viewer, body, params } = call
  if (body.route === undefined) {
    if (body.fields !== undefined) throw invalid('route: is missing: the fields are of which one?', 'route')
    return desk.catalog.good()
  }
  const record: RouteName = { kind: 'route', workspace: params.workspace, name: body.route }
  const part = partOf(desk, record)
  const fields =
    body.fields === undefined ? null : ({ ...body.fields, workspace: params.workspace } as RecordFields)
  if (fields === null && part !== null && part.faults.length === 0) return desk.catalog.good()
  // What would become of another's route, if it were this one, would tell that it is there, and what leads to it.
  if (fields !== null && part === null) requireOwnName(params.workspace, record.name, 'route')
  const draft = fields ?? (await desk.records.get(record))?.draft?.fields ?? part?.fields
  if (draft === undefined) throw notFound()
  const own = viewer.role === 'admin' ? operatorFacts(desk, record, draft) : []
  const tried = desk.catalog.tryChange([{ do: 'publish', record, fields: draft }])
  const faults = [...own, ...('faults' in tried ? faultsFor(viewer.role, tried.faults) : [])]
  return faults.length > 0 || 'faults' in tried ? { faults } : tried
}

/** Whom the sample stands for: an app, or one that leads to the route with everything. */
function principalIn({ snapshot, routes }: ServedCatalog, { desk, body, params }: Call): Principal {
  const { workspace } = params
  const apps = snapshot.apps.get(workspace)
  if (body.app !== undefined) {
    const app = apps?.get(body.app)
    if (app === undefined) throw new GatewayError('NOT_FOUND', 'there is no such app')
    return withKey(app)
  }
  const route = routes.find((one) => one.name === body.route && one.workspace === workspace)
  if (body.route === undefined) throw invalid('app: is missing: name an app or a route', 'app')
  if (route === undefined) throw notFound()
  const [some] = apps?.values() ?? []
  const owner = some?.workspace ?? {
    id: workspace,
    name: workspace,
    plan: null,
    includes: null,
    terms: NO_TERMS,
  }
  const purposes = partsOf(desk, 'purpose', workspace).map(({ name: purpose, fields }) => ({
    purpose,
    description: '',
    enabled: fields.enabled !== false,
    route,
  }))
  return withKey({ workspace: owner, app: { id: 'any' }, route, capabilityRoutes: new Map(), purposes })
}

const NO_TERMS = { grant: null, trial: null, budgetMicros: null }

/** Selection does not look at the key, but a principal has one. */
function withKey(app: AppPrincipal): Principal {
  const rateLimit = { requestsPerMinute: 1, burst: 1 }
  const key = { id: 'key_none', name: '', scopes: [], rateLimit, expiresAtMs: null, budgetMicros: null }
  return { ...app, key }
}

/** @throws GatewayError INVALID_REQUEST when the texts would be too long together */
function sampleOf(given: Static<typeof SampleBody>): Sample {
  const plain = PLAIN_SAMPLE
  const { audio = {}, characters = plain.characters, count = plain.count } = given
  if (characters * count > ALL_CHARACTERS_MAX)
    throw invalid(
      `sample.count: the texts have over ${ALL_CHARACTERS_MAX} characters together`,
      'sample.count',
    )
  return {
    purpose: given.purpose ?? null,
    responseProfile: given.response_profile ?? null,
    features: given.features ?? [],
    hints: given.hints ?? [],
    language: given.language ?? null,
    audio: { ...plain.audio, ...audio },
    characters,
    voice: given.voice ?? null,
    speed: given.speed ?? null,
    responseFormat: given.response_format ?? null,
    images: given.images ?? false,
    tools: given.tools ?? false,
    spoken: given.spoken ?? false,
    size: given.size ?? null,
    durationSeconds: given.duration_seconds ?? null,
    count,
    dimensions: given.dimensions ?? null,
  }
}
