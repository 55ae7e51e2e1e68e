import { type Static, Type } from 'typebox'
import { AUDIO_FORMATS } from '../../../contracts/audio.ts'
import { FEATURES, HINTS } from '../../../contracts/calls.ts'
import { type AppPrincipal, PROFILES, type Principal } from '../../../contracts/catalog.ts'
import type { ServedCatalog } from '../../../contracts/catalog-service.ts'
import type { RecordFields } from '../../../contracts/catalog-store.ts'
import { GatewayError } from '../../../contracts/errors.ts'
import { OPERATION_NAMES } from '../../../contracts/operations.ts'
import type { Sample } from '../../../contracts/sample.ts'
import { requireOwnName } from '../../../gateway/admin/catalog.ts'
import { operatorFacts } from '../../../gateway/admin/change.ts'
import { issuesFor } from '../../../gateway/admin/issues.ts'
import { catalogParts, partOf } from '../../../gateway/admin/parts.ts'
import { noRoute, type RouteName, routeRecord } from '../../../gateway/admin/routes.ts'
import { PLAIN_SAMPLE, sampleCall } from '../../../gateway/call/select/sample.ts'
import { select } from '../../../gateway/call/select/selection.ts'
import { explainRows } from '../../../gateway/call/select/verdict.ts'
import { invalidField } from '../../../gateway/edge/refusals.ts'
import type { ExplainAnswer } from '../answers/routes.ts'
import type { ConsoleContext } from '../context.ts'
import { type ConsoleCall, type ConsoleRoute, consoleEndpoint } from '../endpoint.ts'
import type { Viewing } from './workspaces.ts'

const PATH = '/workspaces/:workspace/explain'
/** Texts of a sample are really made, and read character by character. */
const CHARACTERS_MAX = 200_000
const ALL_CHARACTERS_MAX = 2_000_000

const whole = (minimum: number, maximum: number) => Type.Optional(Type.Integer({ minimum, maximum }))
const word = Type.Optional(Type.String({ minLength: 1, maxLength: 256 }))
const flag = Type.Optional(Type.Boolean())
const closed = { additionalProperties: false }

const AudioSample = Type.Object(
  {
    format: Type.Optional(Type.Enum([...AUDIO_FORMATS, 'other'])),
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
  fields: Type.Optional(
    Type.Object({}, { additionalProperties: true, description: 'the route as it is being edited' }),
  ),
})

type Call = ConsoleCall<typeof PATH, Static<typeof Body>, unknown>

/**
 * Tells which entries would serve a request like the sample, in which order, and why the others would not, with the
 * catalog in force or as if the given fields of a route were. Breakers and latencies are those of this node; heavier
 * entries go before lighter ones.
 */
export function explainEndpoint(context: ConsoleContext): ConsoleRoute {
  return consoleEndpoint(context, 'POST', PATH, { body: Body }, explain)
}

async function explain(call: Call): Promise<ExplainAnswer> {
  const { context, body } = call
  const catalog = await catalogOf(call)
  if ('issues' in catalog) return { refusal: null, entries: [], issues: catalog.issues }
  const principal = principalIn(catalog, call)
  const { services } = context.deps
  const nowMs = context.clock.now()
  const { considered, refusal } = select({
    principal,
    call: sampleCall(body.endpoint, givenSample(body.sample ?? {})),
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
    issues: [],
  }
}

/** The catalog that a sample is explained with. */
async function catalogOf(call: Call): Promise<TriedCatalog> {
  const { context, body, params } = call
  if (body.route !== undefined) {
    const record = routeRecord({ workspace: params.workspace, name: body.route })
    return catalogWith(call, record, (body.fields as RecordFields | undefined) ?? null)
  }
  if (body.fields !== undefined) throw invalidField('route', 'must be given with `fields`')
  return context.catalog.good()
}

/** Issues: why the fields are no route. */
export type TriedCatalog = ServedCatalog | { readonly issues: readonly string[] }

/**
 * The catalog in force, with these fields of a route.
 *
 * @param sent null: the route in force, or its draft where it was never published
 * @throws GatewayError NOT_FOUND, INVALID_REQUEST for a name that is not to be had
 */
export async function catalogWith(
  { context, viewer }: Viewing,
  record: RouteName,
  sent: RecordFields | null,
): Promise<TriedCatalog> {
  const part = partOf(context.catalog, record)
  const fields = sent && { ...sent, workspace: record.workspace }
  if (fields === null && part !== null && part.issues.length === 0) return context.catalog.good()
  // Trying the fields under the name of another workspace's route would tell that it exists, and what leads to it.
  if (fields !== null && part === null) requireOwnName(record, 'route')
  const draft = fields ?? (await context.admin.state.catalog.get(record))?.draft?.fields ?? part?.fields
  if (draft === undefined) throw noRoute()
  const own = viewer.role === 'admin' ? operatorFacts(context.catalog, record, draft) : []
  const tried = context.catalog.tryChange([{ do: 'publish', record, fields: draft }])
  const issues = [...own, ...('issues' in tried ? issuesFor(viewer.role, tried.issues) : [])]
  return issues.length > 0 || 'issues' in tried ? { issues } : tried
}

/** The caller of the sample: an app, or a made-up one that leads to the route. */
function principalIn({ snapshot, routes }: ServedCatalog, { context, body, params }: Call): Principal {
  const { workspace } = params
  const apps = snapshot.apps.get(workspace)
  if (body.app !== undefined) {
    const app = apps?.get(body.app)
    if (app === undefined) throw new GatewayError('NOT_FOUND', 'there is no such app')
    return withKey(app)
  }
  const route = routes.find((one) => one.name === body.route && one.workspace === workspace)
  if (body.route === undefined) throw invalidField('app', 'must be given, or `route`')
  if (route === undefined) throw noRoute()
  const [some] = apps?.values() ?? []
  const owner = some?.workspace ?? {
    id: workspace,
    name: workspace,
    plan: null,
    includes: null,
    terms: NO_TERMS,
  }
  const purposes = catalogParts(context.catalog, 'purpose', workspace).map(({ name: purpose, fields }) => ({
    purpose,
    description: '',
    enabled: fields.enabled !== false,
    route,
  }))
  return withKey({ workspace: owner, app: { id: 'any' }, route, capabilityRoutes: new Map(), purposes })
}

const NO_TERMS = { grant: null, trial: null, budgetMicros: null }

/** Selection does not look at the key, but a principal has one. */
export function withKey(app: AppPrincipal): Principal {
  const rateLimit = { requestsPerMinute: 1, burst: 1 }
  const key = { id: 'key_none', name: '', scopes: [], rateLimit, expiresAtMs: null, budgetMicros: null }
  return { ...app, key }
}

/** @throws GatewayError INVALID_REQUEST when the texts would be too long together */
function givenSample(given: Static<typeof SampleBody>): Sample {
  const plain = PLAIN_SAMPLE
  const { audio = {}, characters = plain.characters, count = plain.count } = given
  if (characters * count > ALL_CHARACTERS_MAX)
    throw invalidField(
      'sample.count',
      `must leave at most ${ALL_CHARACTERS_MAX} characters in all texts together`,
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
