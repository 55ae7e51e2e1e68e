import t from 'tap'
import { classify, retryAfterMs } from '../../src/providers/failure.ts'
import { fixture, reply } from '../support/replies.ts'

interface ErrorFixture {
  readonly name: string
  readonly status: number
  readonly headers?: Record<string, string>
  readonly body: unknown
}

const KINDS: Readonly<Record<string, string>> = {
  'bad file': 'caller',
  'bad model name': 'model',
  'content policy': 'content',
  'billing hard limit': 'credential',
  'bad key': 'credential',
  payment: 'credential',
  country: 'credential',
  'model outside the project': 'model',
  'no such model': 'model',
  'no such voice': 'caller',
  'no such path': 'model',
  timeout: 'server',
  conflict: 'server',
  'too large': 'caller',
  'media type': 'caller',
  validation: 'caller',
  rate: 'rate',
  'slow down': 'rate',
  quota: 'credential',
  balance: 'credential',
  'project spend limit': 'credential',
  'organization spend limit': 'credential',
  'organization usage limit': 'credential',
  'flex capacity': 'rate',
  server: 'server',
  'bad gateway': 'server',
  overloaded: 'rate',
  'gateway timeout': 'server',
  redirect: 'server',
}

t.test('each documented error has its kind', async (t) => {
  const errors = (await fixture('openai/errors.json')) as ErrorFixture[]
  t.same(errors.map(({ name }) => name).sort(), Object.keys(KINDS).sort(), 'every fixture has a row')
  for (const { name, status, headers, body } of errors) {
    const failure = classify(reply(body, status, headers))
    t.equal(failure.kind, KINDS[name], name)
    t.equal(failure.status, status)
    const said = failure.providerMessage ?? ''
    t.notOk(said !== '' && failure.reason.includes(said), 'the reason is ours, not the provider’s')
  }
})

t.test('what the provider said is kept for the log, and cut to 2 KiB between characters', async (t) => {
  t.equal(classify(reply({ error: { message: 'Slow.' } }, 429)).providerMessage, 'Slow.')
  t.equal(classify(reply({ error: 'no such thing' }, 500)).providerMessage, 'no such thing')
  t.equal(classify(reply({ detail: 'Not Found' }, 404)).providerMessage, 'Not Found')
  t.equal(classify(reply({ message: 'bye' }, 500)).providerMessage, 'bye')
  const echoed = { error: { message: 'Incorrect API key: sk-secret', type: 'auth', code: 'invalid_api_key' } }
  t.equal(classify(reply(echoed, 401)).providerMessage, 'invalid_api_key, auth', 'a key may be in the prose')
  t.equal(classify(reply('bad key sk-secret', 401)).providerMessage, null)
  t.equal(classify(reply('plain words', 500)).providerMessage, 'plain words')
  t.equal(classify(reply('', 500)).providerMessage, null)
  t.equal(classify(reply('[1]', 500)).providerMessage, '[1]')
  const long = classify(reply({ error: { message: `x${'é'.repeat(3000)}` } }, 500)).providerMessage ?? ''
  t.ok(Buffer.byteLength(long) <= 2048 && Buffer.byteLength(long) > 2040)
  t.notMatch(long, /\ufffd/)
  t.equal(classify(reply('x'.repeat(100_000), 500)).providerMessage, null, 'a flood is not read at all')
})

t.test('Retry-After in its forms', async (t) => {
  const date = 'Fri, 20 Nov 2026 10:00:00 GMT'
  const rows: [Record<string, string>, number | null][] = [
    [{}, null],
    [{ 'retry-after': '7' }, 7000],
    [{ 'retry-after': '0' }, 0],
    [{ 'retry-after': '1.5' }, 1500],
    [{ 'retry-after': '7', 'retry-after-ms': '6400' }, 6400],
    [{ 'retry-after': 'Fri, 20 Nov 2026 10:00:30 GMT', date }, 30_000],
    [{ 'retry-after': 'Fri, 20 Nov 2026 09:00:00 GMT', date }, 0],
    [{ 'retry-after': 'Fri, 20 Nov 2026 10:00:30 GMT' }, null],
    [{ 'retry-after': 'soon', date }, null],
    [{ 'retry-after': '-5', date }, null],
    [{ 'retry-after': '999999999' }, 86_400_000],
    [{ 'retry-after-ms': 'x', 'retry-after': '3' }, 3000],
  ]
  for (const [headers, expected] of rows) t.equal(retryAfterMs(headers), expected, JSON.stringify(headers))
})
