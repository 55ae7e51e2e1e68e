import t from 'tap'
import { assertStopsClean } from '../support/gateway.ts'
import { secret, startRouteGateway } from '../support/route-gateway.ts'
import { vectorOf } from '../support/upstream/openai.ts'
import { startModelGateway } from './model-gateway.ts'

const ENTRY = { model: 'embedder', capabilities: ['embeddings'], price: { per_1m_input_tokens_usd: 1_000 } }

interface Embedded {
  readonly embeddings: readonly (readonly number[])[]
  readonly [field: string]: unknown
}

t.test('a text, or texts, in their order', async (t) => {
  const gateway = await startModelGateway(t, [ENTRY])
  const rows: [object, string[], number][] = [
    [{ input: 'lark' }, ['lark'], 8],
    [{ input: ['a', 'bb', 'ccc'] }, ['a', 'bb', 'ccc'], 8],
    [{ input: ['Grüße', '🐦'], dimensions: 3 }, ['Grüße', '🐦'], 3],
    [{ input: 'lark', dimensions: null, model: 'mine', encoding_format: 'float' }, ['lark'], 8],
  ]
  for (const [body, texts, dimensions] of rows) {
    const response = await gateway.post('/v1/embeddings', body)
    t.equal(response.status, 200)
    const answer = (await response.json()) as Embedded
    t.same(
      answer.embeddings,
      texts.map((text) => vectorOf(text, dimensions)),
      JSON.stringify(body),
    )
    t.match(answer, {
      id: response.headers.get('x-lk-request-id'),
      provider: 'models',
      model: 'embedder',
      content: '',
      content_blocks: [],
      usage: { input_tokens: texts.length, total_tokens: texts.length },
      cost_usd: texts.length / 1_000,
      determinism: { seed_honored: false },
      lk_purpose_source: 'none',
    })
    t.match(gateway.upstream.received.at(-1), {
      path: '/v1/embeddings',
      body: { model: 'embedder', input: texts },
    })
    const unknown = 'encoding_format' in body ? ['encoding_format: unknown field, ignored'] : []
    t.same(answer.warnings, unknown)
  }
  await assertStopsClean(t, gateway)
})

t.test('refused, naming the field', async (t) => {
  const gateway = await startModelGateway(t, [ENTRY])
  const rows: [object, string][] = [
    [{}, 'input'],
    [{ input: null }, 'input'],
    [{ input: '' }, 'input'],
    [{ input: [] }, 'input'],
    [{ input: 5 }, 'input'],
    [{ input: ['a', ''] }, 'input[1]'],
    [{ input: ['a', 5] }, 'input[1]'],
    [{ input: [[1, 2]] }, 'input[0]'],
    [{ input: Array(2_049).fill('a') }, 'input'],
    [{ input: 'a', dimensions: 0 }, 'dimensions'],
    [{ input: 'a', dimensions: '3' }, 'dimensions'],
    [{ input: 'a', purpose: {} }, 'purpose'],
  ]
  for (const [body, param] of rows) {
    const response = await gateway.post('/v1/embeddings', body)
    t.equal(response.status, 400, JSON.stringify(body).slice(0, 60))
    t.match(await response.json(), { error: { code: 'INVALID_REQUEST', param } })
  }
  t.equal(gateway.upstream.received.length, 0)
  const none = await startModelGateway(t, [{ ...ENTRY, capabilities: ['text'] }])
  t.equal((await none.post('/v1/embeddings', { input: 'a' })).status, 503)
})

t.test('a large answer arrives whole, and others meanwhile', { timeout: 60_000 }, async (t) => {
  const gateway = await startModelGateway(t, [ENTRY])
  const input = Array.from({ length: 1_000 }, (_, index) => 'x'.repeat(index + 1))
  const large = gateway.post('/v1/embeddings', { input, dimensions: 1_500 })
  t.equal((await gateway.post('/v1/embeddings', { input: 'lark' })).status, 200)
  const { embeddings } = (await (await large).json()) as Embedded
  t.equal(embeddings.length, 1_000)
  for (const index of [0, 1, 499, 999]) t.same(embeddings[index], vectorOf(input[index] ?? '', 1_500))
  await assertStopsClean(t, gateway)
})

t.test("tokens at OpenAI's path, counted as they are", async (t) => {
  const gateway = await startModelGateway(t, [ENTRY])
  // A provider that does not say how many it counted.
  gateway.upstream.behave('embedder', { usage: {} })
  const rows: [input: unknown, passed: readonly (string | readonly number[])[], tokens: number][] = [
    [[5, 6, 7], [[5, 6, 7]], 3],
    // As LangChain's `OpenAIEmbeddings` for Python asks: each text as the tokens of tiktoken.
    [[[15339, 1917], [9906]], [[15339, 1917], [9906]], 3],
    [[[0]], [[0]], 1],
  ]
  for (const [input, passed, tokens] of rows) {
    const body = { input, model: 'text-embedding-3-small', encoding_format: 'base64' }
    const response = await gateway.post('/openai/v1/embeddings', body)
    t.equal(response.status, 200)
    t.match(gateway.upstream.received.at(-1)?.body, { model: 'embedder', input: passed })
    const answer = (await response.json()) as { data: { embedding: string }[]; usage: object }
    t.same(answer.usage, { prompt_tokens: tokens, total_tokens: tokens })
    t.equal(response.headers.get('x-lk-usage-input-tokens'), String(tokens))
    t.equal(response.headers.get('x-lk-cost-usd'), String(tokens / 1_000))
    t.equal(answer.data.length, passed.length)
    for (const [index, { embedding }] of answer.data.entries()) {
      const expected = Buffer.from(new Float32Array(vectorOf(passed[index] ?? '', 8)).buffer)
      t.equal(embedding, expected.toString('base64'))
    }
  }
  const texts = await gateway.post('/openai/v1/embeddings', { input: ['a'], model: 'x' })
  t.match(await texts.json(), { usage: { prompt_tokens: 0 } }, 'texts are not counted here')
  await assertStopsClean(t, gateway)
})

t.test('entries that take texts alone are not asked with tokens', async (t) => {
  const gemini = { kind: 'gemini', access: 'byok', workspace: 'acme', api_key: secret('KEY') }
  const mistral = { ...gemini, kind: 'mistral' }
  const capabilities = ['embeddings']
  const gateway = await startRouteGateway(t, {
    providers: {
      gemini: { ...gemini, base_url: 'http://127.0.0.1:1' },
      mistral: { ...mistral, base_url: 'http://127.0.0.1:1' },
    },
    entries: [
      { provider: 'gemini', model: 'embedder', capabilities },
      { provider: 'mistral', model: 'embedder', capabilities },
    ],
    env: { KEY: 'any' },
  })
  const refused = await gateway.post('/openai/v1/embeddings', { model: 'x', input: [[1, 2], [3]] })
  t.equal(refused.status, 400)
  t.match(await refused.json(), {
    error: {
      ...{ code: 'INVALID_REQUEST', param: 'input', message: /takes texts, not tokens/ },
      details: { entries: [{ left: 'limits' }, { left: 'limits' }] },
    },
  })
  await assertStopsClean(t, gateway)
})
