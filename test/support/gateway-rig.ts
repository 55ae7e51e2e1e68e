import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Test } from 'tap'
import type { AudioReader } from '../../src/contracts/audio.ts'
import { CAPABILITIES } from '../../src/contracts/calls.ts'
import type { Entry, Principal } from '../../src/contracts/catalog.ts'
import type { ChatCall } from '../../src/contracts/chat.ts'
import { GatewayError } from '../../src/contracts/errors.ts'
import { DEFAULT_LIMITS, type Limits } from '../../src/contracts/limits.ts'
import { createLogger } from '../../src/contracts/log.ts'
import type { Objects } from '../../src/contracts/objects.ts'
import type { Calls, OperationName, StreamedName } from '../../src/contracts/operations.ts'
import type { Provider } from '../../src/contracts/provider.ts'
import { type Clock, systemClock } from '../../src/contracts/time.ts'
import { authenticate } from '../../src/gateway/call/authentication.ts'
import { type AdmittedContext, CallContext } from '../../src/gateway/call/context/call-context.ts'
import { createEndUserHash } from '../../src/gateway/call/context/end-users.ts'
import type { Services } from '../../src/gateway/call/context/services.ts'
import type { Call, JobContext } from '../../src/gateway/call/facts/call.ts'
import {
  createAccountViews,
  createSettlements,
  createUsageBuffer,
} from '../../src/gateway/call/money/accounts.ts'
import { createMoneyLeases } from '../../src/gateway/call/money/money-leases.ts'
import { type IdempotentRequest, run } from '../../src/gateway/call/pipeline.ts'
import { createCircuitBreakers, createLatencyTracker } from '../../src/gateway/call/select/health.ts'
import { ReplicaPools } from '../../src/gateway/call/select/replicas.ts'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { createSender } from '../../src/gateway/outbound/send.ts'
import { createSocketOpener } from '../../src/gateway/outbound/web-socket.ts'
import { PROVIDERS } from '../../src/gateway/providers/index.ts'
import { createBudget } from '../../src/gateway/storage/budget.ts'
import { createSlotResults } from '../../src/gateway/storage/kept-texts.ts'
import { callOf } from './call.ts'
import { configuredProvider, entry, facts, principal, route } from './catalog.ts'
import { serveHttp } from './http-server.ts'
import { memoryState } from './own-state.ts'

const MIB = 1024 * 1024

/** The gateway's own parts, with real connections, around one route. */
export interface GatewayRig {
  readonly services: Services
  /** Header of the one caller. */
  readonly authorization: string
  /** A call of this operation by the one key there is. */
  request<K extends OperationName>(operation: K, payload: Calls[K], signal?: AbortSignal): RigRequest<K>
}

/** A call, and the context of its caller. */
export interface RigRequest<K extends OperationName> {
  readonly context: AdmittedContext
  readonly call: Call<K>
}

export function runWhole<K extends OperationName>(services: Services, { context, call }: RigRequest<K>) {
  return run(services, context, { mode: 'whole', call })
}

export function runStreamed<K extends StreamedName>(services: Services, { context, call }: RigRequest<K>) {
  return run(services, context, { mode: 'streamed', call })
}

export function runForJob<K extends OperationName>(
  services: Services,
  { context, call }: RigRequest<K>,
  job: JobContext,
) {
  return run(services, context, { mode: 'job', call, job })
}

export function runIdempotent<K extends OperationName>(
  services: Services,
  { context, call }: RigRequest<K>,
  once: Omit<IdempotentRequest<K>, 'mode' | 'call'>,
) {
  return run(services, context, { mode: 'idempotent', call, ...once })
}

export interface GatewayRigOptions {
  /** Absent: the machine's. */
  readonly clock?: Clock
  readonly entries: readonly Entry[]
  /** Beside those that there are. */
  readonly providers?: readonly Provider[]
  readonly deadlineMs?: number
  readonly reader?: AudioReader
  /** What is different about the one caller. */
  readonly caller?: Partial<Principal>
  readonly limits?: Partial<Limits>
  /** Hosts that every workspace may fetch audio from. */
  readonly audioUrlDomains?: readonly string[]
}

const NO_AUDIO: AudioReader = {
  bytes: () => {
    throw new Error('there is no audio')
  },
  base64: () => {
    throw new Error('there is no audio')
  },
  range: () => Promise.reject(new Error('there is no audio')),
}

/** Answers of these tests are so short that they stay in the state. */
const NO_OBJECTS = new Proxy<Objects>({} as Objects, {
  get() {
    throw new Error('there is no object store')
  },
})

/** No route of these tests encodes. */
const NO_ENCODERS: Services['encoders'] = {
  begin() {
    throw new Error('nothing is encoded here')
  },
}

export function gatewayRig(t: Pick<Test, 'teardown'>, options: GatewayRigOptions): GatewayRig {
  const { entries, providers = [], deadlineMs = 30_000, reader = NO_AUDIO } = options
  const key = makeKey()
  const sender = createSender({ reader })
  t.teardown(() => sender.close())
  const caller = principal({ route: route(entries), ...options.caller })
  const snapshot = {
    limits: { ...DEFAULT_LIMITS, ...options.limits },
    deadlineMs,
    videoDeadlineMs: deadlineMs,
    keys: new Map([[hashKey(key), caller]]),
    apps: new Map(),
    rateLimit: caller.key.rateLimit,
    audioUrlDomains: options.audioUrlDomains ?? [],
  }
  const { clock = systemClock } = options
  const log = createLogger('silent')
  const state = memoryState(clock)
  const settlements = createSettlements(state.ledger, log, clock)
  const usage = createUsageBuffer({ accounts: state.accounts, log, clock })
  const moneyLeases = createMoneyLeases({ ledger: state.ledger, settlements, usage, log, clock })
  t.teardown(async () => {
    await moneyLeases.close()
    await usage.close()
    await settlements.close()
    await state.close()
  })
  const budget = createBudget(64 * MIB)
  const services: Services = {
    clock,
    snapshot: () => snapshot,
    providers: new Map([...PROVIDERS, ...providers.map((one) => [one.kind, one] as const)]),
    keys: { find: (sha256) => snapshot.keys.get(sha256) },
    endUserHash: createEndUserHash([Buffer.alloc(32, 7)]),
    state,
    settlements,
    moneyLeases,
    usage,
    accountViews: createAccountViews(state.accounts, (id) => moneyLeases.giveBack(id), clock),
    slotResults: createSlotResults({ objects: NO_OBJECTS, budget }),
    send: sender.send,
    open: sender.open,
    openSocket: createSocketOpener(undefined),
    budget,
    encoders: NO_ENCODERS,
    audio: reader,
    random: () => 0.5,
    latency: createLatencyTracker(),
    health: createCircuitBreakers(),
    replicas: new ReplicaPools(() => 0.5, clock),
  }
  const authorization = `Bearer ${key}`
  return {
    services,
    authorization,
    request: (operation, payload, signal = new AbortController().signal) => ({
      context: authenticate(services, new CallContext({ requestId: 'req_given', signal }), authorization),
      call: callOf(operation, payload),
    }),
  }
}

/** An entry at an upstream, for every capability there is. */
export function entryAt(origin: string, overrides: Partial<Entry> & { readonly kind?: string } = {}): Entry {
  const { kind = 'openai-compatible', ...rest } = overrides
  const priced = facts({
    capabilities: [...CAPABILITIES],
    price: { per_hour_usd: 0.36, per_1m_input_tokens_usd: 1, per_1m_output_tokens_usd: 10 },
  })
  return entry({ provider: configuredProvider({ kind, baseUrl: `${origin}/v1` }), facts: priced, ...rest })
}

export function chatCall(overrides: Partial<ChatCall> = {}): ChatCall {
  return {
    messages: [{ role: 'user', parts: [{ type: 'text', text: 'hello' }] }],
    tools: [],
    tool_choice: null,
    modalities: ['text'],
    audio: null,
    response_schema: null,
    max_tokens: null,
    temperature: null,
    top_p: null,
    stop: [],
    seed: null,
    ...overrides,
  }
}

export interface Upstream {
  readonly origin: string
  /** `METHOD path` of every request that came whole. */
  readonly requests: string[]
}

/** A provider that reads every request whole, then does as told. */
export async function upstream(
  t: Pick<Test, 'teardown'>,
  answer: (response: ServerResponse, request: IncomingMessage) => void,
): Promise<Upstream> {
  const requests: string[] = []
  const origin = await serveHttp(t, (request, response) => {
    request.resume().on('end', () => {
      requests.push(`${request.method} ${request.url}`)
      answer(response, request)
    })
  })
  return { origin, requests }
}

/** What a promise is refused with. */
export async function refusalOf(promise: Promise<unknown>): Promise<GatewayError> {
  const error = await promise.then(
    () => null,
    (reason: unknown) => reason,
  )
  if (error instanceof GatewayError) return error
  throw new Error('it is not refused by the gateway', { cause: error })
}
