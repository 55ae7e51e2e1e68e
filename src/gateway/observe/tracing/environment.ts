type Variables = Readonly<Record<string, string | undefined>>

/** How traces are sampled, in the words of `OTEL_TRACES_SAMPLER`. */
export interface Sampling {
  readonly root: 'always_on' | 'always_off' | 'traceidratio'
  /** The sampled flag of a caller's trace context decides; `root` decides without one. */
  readonly parentBased: boolean
  /** Ratio of `traceidratio`, from 0 to 1. */
  readonly ratio: number
}

/** Settings that the packages do not read by themselves. */
export interface TracingOptions {
  readonly sampling: Sampling
  readonly batch: {
    readonly maxQueueSize: number
    readonly maxExportBatchSize: number
    readonly scheduledDelayMillis: number
    readonly exportTimeoutMillis: number
  }
}

export interface TracingEnvironment {
  /** Null: tracing is off. */
  readonly options: TracingOptions | null
  /** Settings that are not supported: names of variables, never their values. */
  readonly warnings: readonly string[]
}

const SAMPLERS: Readonly<Record<string, Pick<Sampling, 'root' | 'parentBased'>>> = {
  always_on: { root: 'always_on', parentBased: false },
  always_off: { root: 'always_off', parentBased: false },
  traceidratio: { root: 'traceidratio', parentBased: false },
  parentbased_always_on: { root: 'always_on', parentBased: true },
  parentbased_always_off: { root: 'always_off', parentBased: true },
  parentbased_traceidratio: { root: 'traceidratio', parentBased: true },
}
const DEFAULT_SAMPLER = 'parentbased_always_on'

/** A queue as long as this takes some 200 MB; a timer takes no longer time. */
const QUEUE_MAX = 100_000
const MS_MAX = 2_147_483_647

/**
 * Reads the standard variables of OpenTelemetry, as far as the packages leave that to us: whether there is tracing at
 * all, how it is sampled, how spans are batched. Endpoint, headers, compression, time limit and certificates are read
 * by the exporter, service name and resource attributes by the detector of resources, both out of the environment of
 * the process. Names, defaults and meanings:
 * https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
 */
export function readTracingEnvironment(env: Variables): TracingEnvironment {
  const warnings: string[] = []
  if (lower(env, 'OTEL_SDK_DISABLED') === 'true' || !isAskedFor(env, warnings)) return off(warnings)
  if (!isReachable(env, warnings) || !speaksProtobuf(env, warnings)) return off(warnings)
  return { options: { sampling: samplingOf(env, warnings), batch: batchOf(env, warnings) }, warnings }
}

function off(warnings: readonly string[]): TracingEnvironment {
  return { options: null, warnings }
}

const ENDPOINTS = ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'OTEL_EXPORTER_OTLP_ENDPOINT'] as const

/** An exporter that is named, or a receiver: without either, traces are not asked for. */
function isAskedFor(env: Variables, warnings: string[]): boolean {
  const exporters = lower(env, 'OTEL_TRACES_EXPORTER')?.split(',') ?? []
  const names = exporters.map((name) => name.trim()).filter((name) => name !== '')
  if (names.length === 0) return ENDPOINTS.some((name) => given(env, name) !== undefined)
  const otlp = names.includes('otlp')
  if (names.some((name) => name !== 'otlp' && name !== 'none')) {
    warnings.push(`OTEL_TRACES_EXPORTER: only otlp and none are known${otlp ? '' : ', tracing stays off'}`)
  }
  return otlp
}

/** The exporter itself would take an endpoint that it cannot read for none, and send to the default one. */
function isReachable(env: Variables, warnings: string[]): boolean {
  const name = ENDPOINTS.find((endpoint) => given(env, endpoint) !== undefined)
  if (name === undefined || /^https?:$/.test(URL.parse(given(env, name) ?? '')?.protocol ?? '')) return true
  warnings.push(`${name}: not an http(s) URL, tracing stays off`)
  return false
}

/** Receivers take both encodings at the same address, so that JSON is no loss; gRPC has a port of its own. */
function speaksProtobuf(env: Variables, warnings: string[]): boolean {
  const names = ['OTEL_EXPORTER_OTLP_TRACES_PROTOCOL', 'OTEL_EXPORTER_OTLP_PROTOCOL']
  const name = names.find((protocol) => given(env, protocol) !== undefined)
  if (name === undefined) return true
  const protocol = lower(env, name)
  if (protocol === 'http/json') warnings.push(`${name}: spans are sent as http/protobuf`)
  if (protocol === 'http/json' || protocol === 'http/protobuf') return true
  warnings.push(`${name}: only http/protobuf is known, tracing stays off`)
  return false
}

function samplingOf(env: Variables, warnings: string[]): Sampling {
  const sampler = SAMPLERS[lower(env, 'OTEL_TRACES_SAMPLER') ?? DEFAULT_SAMPLER]
  if (sampler === undefined) warnings.push(`OTEL_TRACES_SAMPLER: not known, taken for ${DEFAULT_SAMPLER}`)
  const ratio = numberOf(env, 'OTEL_TRACES_SAMPLER_ARG', { least: 0, most: 1, otherwise: 1 }, warnings)
  return { ...(sampler ?? SAMPLERS[DEFAULT_SAMPLER]!), ratio }
}

function batchOf(env: Variables, warnings: string[]): TracingOptions['batch'] {
  const count = (name: string, otherwise: number, most: number, least = 1) =>
    Math.trunc(numberOf(env, name, { least, most, otherwise }, warnings))
  const maxQueueSize = count('OTEL_BSP_MAX_QUEUE_SIZE', 2_048, QUEUE_MAX)
  return {
    maxQueueSize,
    maxExportBatchSize: Math.min(maxQueueSize, count('OTEL_BSP_MAX_EXPORT_BATCH_SIZE', 512, QUEUE_MAX)),
    scheduledDelayMillis: count('OTEL_BSP_SCHEDULE_DELAY', 5_000, MS_MAX, 0),
    exportTimeoutMillis: count('OTEL_BSP_EXPORT_TIMEOUT', 30_000, MS_MAX),
  }
}

interface Range {
  readonly least: number
  readonly most: number
  readonly otherwise: number
}

function numberOf(env: Variables, name: string, range: Range, warnings: string[]): number {
  const text = given(env, name)
  if (text === undefined) return range.otherwise
  const number = Number(text)
  if (number >= range.least && number <= range.most) return number
  warnings.push(`${name}: not a number from ${range.least} to ${range.most}, taken for ${range.otherwise}`)
  return range.otherwise
}

function lower(env: Variables, name: string): string | undefined {
  return given(env, name)?.toLowerCase()
}

/** Empty ones count as not set. */
function given(env: Variables, name: string): string | undefined {
  const text = env[name]?.trim()
  return text === '' ? undefined : text
}
