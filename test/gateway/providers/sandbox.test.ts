import t from 'tap'
import { Value } from 'typebox/value'
import { CAPABILITIES } from '../../../src/contracts/calls.ts'
import { OPERATION_NAMES } from '../../../src/contracts/operations.ts'
import { factsOf } from '../../../src/gateway/providers/facts.ts'
import { SANDBOX_OPTIONS, sandbox } from '../../../src/gateway/providers/sandbox.ts'
import { audio, chatCall, completeCall, options, speechCall } from '../../support/call.ts'
import { requestOf } from '../../support/form-of.ts'

const ALL = {
  delay_ms: 50,
  status: 429,
  code: 'insufficient_quota',
  retry_after: 7,
  hang: true,
  cut: true,
  empty: true,
  early: true,
  read_bytes_per_second: 1000,
  fail_times: 2,
  key: 'k-1',
}

const IMAGE = { prompt: 'a', n: 1, size: null, quality: null, output_format: null, seed: null }
const VIDEO = { prompt: 'a', duration_seconds: null, size: null, seed: null }

function faultsOf(given: Readonly<Record<string, unknown>>): Record<string, string> {
  const target = { model: 'morse-1', baseUrl: 'http://127.0.0.1:1/v1', credential: null, options: given }
  const call = { audio: audio(), options: options() }
  const requests = [
    requestOf(sandbox.transcription!.start(call, target)),
    requestOf(sandbox.translation!.start(call, target)),
    requestOf(sandbox.speech!.start(speechCall().payload, target)),
    requestOf(sandbox.speech!.streamed!.start(speechCall().payload, target)),
    requestOf(sandbox.chat!.start(chatCall(), target)),
    requestOf(sandbox.chat!.streamed!.start(chatCall(), target)),
    requestOf(sandbox.complete!.start(completeCall(), target)),
    requestOf(sandbox.embeddings!.start({ input: ['a'], dimensions: null }, target)),
    requestOf(sandbox.image!.start(IMAGE, target)),
    requestOf(sandbox.video!.start(VIDEO, target)),
    requestOf(sandbox.models!.start(null, target)),
  ]
  const [first, ...others] = requests.map(({ headers }) =>
    Object.fromEntries(Object.entries(headers).filter(([name]) => name.startsWith('x-sandbox-'))),
  )
  for (const other of others) t.same(other, first, 'every operation sends the same faults')
  return first!
}

t.test('options become headers', async (t) => {
  t.same(faultsOf(ALL), {
    'x-sandbox-delay-ms': '50',
    'x-sandbox-status': '429',
    'x-sandbox-code': 'insufficient_quota',
    'x-sandbox-retry-after': '7',
    'x-sandbox-hang': 'true',
    'x-sandbox-cut': 'true',
    'x-sandbox-empty': 'true',
    'x-sandbox-early': 'true',
    'x-sandbox-read-bytes-per-second': '1000',
    'x-sandbox-fail-times': '2',
    'x-sandbox-key': 'k-1',
  })
  t.same(faultsOf({}), {})
  t.same(faultsOf({ hang: false, delay_ms: 0, other: 1 }), { 'x-sandbox-delay-ms': '0' })
})

t.test('options are checked', async (t) => {
  t.equal(sandbox.optionsSchema, SANDBOX_OPTIONS)
  t.ok(Value.Check(SANDBOX_OPTIONS, {}))
  t.ok(Value.Check(SANDBOX_OPTIONS, ALL))
  const bad = [
    { delay_ms: -1 },
    { delay_ms: 1.5 },
    { status: 200 },
    { status: 600 },
    { code: 'a\r\nb: c' },
    { key: '' },
    { hang: 'true' },
    { read_bytes_per_second: 0 },
    { unknown: 1 },
  ]
  for (const given of bad) t.notOk(Value.Check(SANDBOX_OPTIONS, given), JSON.stringify(given))
})

t.test('it makes wav and mp3, and nothing else', async (t) => {
  const target = { model: 'morse-1', baseUrl: 'http://127.0.0.1:1/v1', credential: null, options: {} }
  const step = sandbox.speech!.start(speechCall({ response_format: 'opus' }).payload, target)
  t.match(step, { kind: 'failed', failure: { kind: 'model' } })
})

t.test('it has an operation for every endpoint', async (t) => {
  for (const name of OPERATION_NAMES) t.ok(sandbox[name === 'vision' ? 'chat' : name], name)
  const facts = factsOf('sandbox', 'morse-1')!
  t.same([...facts.capabilities].sort(), [...CAPABILITIES].sort(), 'and its model serves them all')
})
