import t from 'tap'
import type { TracingOptions } from '../../../../src/gateway/observe/tracing/environment.ts'
import { readTracingEnvironment } from '../../../../src/gateway/observe/tracing/environment.ts'

const ENDPOINT = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://localhost:4318' }
const SECRET = 'secret-value'

/** What is read of variables beside an endpoint. */
function optionsOf(env: Readonly<Record<string, string>>): TracingOptions {
  const { options } = readTracingEnvironment({ ...ENDPOINT, ...env })
  if (options === null) throw new Error('tracing is off')
  return options
}

t.test('what turns tracing on', async (t) => {
  const rows: [Readonly<Record<string, string>>, boolean, RegExp?][] = [
    [{}, false],
    [{ OTEL_SERVICE_NAME: 'voice' }, false],
    [ENDPOINT, true],
    [{ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://traces.example/v1/traces' }, true],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: '' }, false],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: '  ' }, false],
    [{ OTEL_TRACES_EXPORTER: 'otlp' }, true],
    [{ OTEL_TRACES_EXPORTER: ' OTLP ' }, true],
    [{ ...ENDPOINT, OTEL_TRACES_EXPORTER: 'none' }, false],
    [{ ...ENDPOINT, OTEL_TRACES_EXPORTER: '' }, true],
    [{ ...ENDPOINT, OTEL_TRACES_EXPORTER: 'zipkin' }, false, /^OTEL_TRACES_EXPORTER: .*stays off/],
    [{ OTEL_TRACES_EXPORTER: 'otlp,console' }, true, /^OTEL_TRACES_EXPORTER: only otlp and none are known$/],
    [{ ...ENDPOINT, OTEL_SDK_DISABLED: 'true' }, false],
    [{ ...ENDPOINT, OTEL_SDK_DISABLED: 'TRUE' }, false],
    [{ ...ENDPOINT, OTEL_SDK_DISABLED: 'yes' }, true],
    [{ ...ENDPOINT, OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protobuf' }, true],
    [
      { ...ENDPOINT, OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json' },
      true,
      /^OTEL_EXPORTER_OTLP_PROTOCOL: .*protobuf/,
    ],
    [{ ...ENDPOINT, OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }, false, /stays off/],
    [
      {
        ...ENDPOINT,
        OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc',
        OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'http/protobuf',
      },
      true,
    ],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: SECRET }, false, /^OTEL_EXPORTER_OTLP_ENDPOINT: not an http\(s\) URL/],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: `grpc://${SECRET}:4317` }, false, /not an http/],
    [{ ...ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: SECRET }, false, /TRACES_ENDPOINT: not an http/],
  ]
  for (const [env, on, warning] of rows) {
    const { options, warnings } = readTracingEnvironment(env)
    t.equal(options !== null, on, JSON.stringify(env))
    t.equal(warnings.length, warning === undefined ? 0 : 1, JSON.stringify(warnings))
    if (warning !== undefined) t.match(warnings[0], warning)
    t.notMatch(warnings.join(), SECRET, 'no value is printed')
  }
})

t.test('sampling', async (t) => {
  const rows: [Readonly<Record<string, string>>, TracingOptions['sampling'], number][] = [
    [{}, { root: 'always_on', parentBased: true, ratio: 1 }, 0],
    [{ OTEL_TRACES_SAMPLER: 'always_on' }, { root: 'always_on', parentBased: false, ratio: 1 }, 0],
    [{ OTEL_TRACES_SAMPLER: 'always_off' }, { root: 'always_off', parentBased: false, ratio: 1 }, 0],
    [
      { OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: '0.25' },
      { root: 'traceidratio', parentBased: false, ratio: 0.25 },
      0,
    ],
    [
      { OTEL_TRACES_SAMPLER: 'parentbased_traceidratio', OTEL_TRACES_SAMPLER_ARG: '0' },
      { root: 'traceidratio', parentBased: true, ratio: 0 },
      0,
    ],
    [
      { OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: '2' },
      { root: 'traceidratio', parentBased: false, ratio: 1 },
      1,
    ],
    [{ OTEL_TRACES_SAMPLER: 'jaeger_remote' }, { root: 'always_on', parentBased: true, ratio: 1 }, 1],
  ]
  for (const [env, sampling, warnings] of rows) {
    const read = readTracingEnvironment({ ...ENDPOINT, ...env })
    t.same(read.options?.sampling, sampling, JSON.stringify(env))
    t.equal(read.warnings.length, warnings, read.warnings.join())
  }
})

t.test('batches', async (t) => {
  t.same(optionsOf({}).batch, {
    maxQueueSize: 2_048,
    maxExportBatchSize: 512,
    scheduledDelayMillis: 5_000,
    exportTimeoutMillis: 30_000,
  })
  const set = {
    OTEL_BSP_MAX_QUEUE_SIZE: '100',
    OTEL_BSP_MAX_EXPORT_BATCH_SIZE: '500',
    OTEL_BSP_SCHEDULE_DELAY: '0',
    OTEL_BSP_EXPORT_TIMEOUT: '1000',
  }
  t.same(optionsOf(set).batch, {
    maxQueueSize: 100,
    maxExportBatchSize: 100,
    scheduledDelayMillis: 0,
    exportTimeoutMillis: 1_000,
  })
  for (const value of ['-1', 'many', '0', '1e9', 'NaN']) {
    const { options, warnings } = readTracingEnvironment({ ...ENDPOINT, OTEL_BSP_MAX_QUEUE_SIZE: value })
    t.equal(options?.batch.maxQueueSize, 2_048, value)
    t.match(warnings, [/^OTEL_BSP_MAX_QUEUE_SIZE: not a number from 1 to 100000, taken for 2048$/])
  }
})
