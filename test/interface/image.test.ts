import t from 'tap'
import { assertStopsClean } from '../support/gateway.ts'
import { startModelGateway } from './model-gateway.ts'

const ENTRY = { model: 'painter', capabilities: ['image'], price: { per_image_usd: 0.04 } }

interface Painted {
  readonly content_blocks: readonly { readonly base64: string; readonly [field: string]: unknown }[]
  readonly [field: string]: unknown
}

t.test('pictures come as blocks', async (t) => {
  const gateway = await startModelGateway(t, [ENTRY])
  const given = { prompt: 'a lark', n: 3, size: '512x512', quality: 'high', output_format: 'png' }
  const response = await gateway.post('/v1/image', { ...given, style: 'vivid', provider: 'x' })
  t.equal(response.status, 200)
  const answer = (await response.json()) as Painted
  t.match(answer, {
    id: response.headers.get('x-lk-request-id'),
    provider: 'models',
    model: 'painter',
    content: '',
    cost_usd: 0.12,
    determinism: { seed_honored: false },
    warnings: ['style: unknown field, ignored'],
  })
  t.equal(answer.content_blocks.length, 3)
  for (const { base64, ...block } of answer.content_blocks) {
    t.same(block, { type: 'output_image', media_type: 'image/png' })
    t.equal(Buffer.from(base64, 'base64').subarray(1, 4).toString(), 'PNG')
  }
  t.match(gateway.upstream.received, [
    { path: '/v1/images/generations', body: { model: 'painter', ...given } },
  ])

  const one = (await (await gateway.post('/v1/image', { prompt: 'a lark', n: null })).json()) as Painted
  t.equal(one.content_blocks.length, 1)
  t.match(gateway.upstream.received.at(-1)?.body, { n: 1, size: undefined })
  await assertStopsClean(t, gateway)
})

t.test('large pictures', { timeout: 60_000 }, async (t) => {
  const gateway = await startModelGateway(t, [ENTRY])
  gateway.upstream.behave('painter', { picture: 4_000_000 })
  const answer = (await (await gateway.post('/v1/image', { prompt: 'a lark', n: 4 })).json()) as Painted
  t.same(
    answer.content_blocks.map(({ base64 }) => Buffer.from(base64, 'base64').length),
    Array(4).fill(4_000_008),
  )
  await assertStopsClean(t, gateway)
})

t.test('refused, naming the field', async (t) => {
  const gateway = await startModelGateway(t, [ENTRY])
  const rows: [object, string][] = [
    [{}, 'prompt'],
    [{ prompt: '' }, 'prompt'],
    [{ prompt: ['a'] }, 'prompt'],
    [{ prompt: 'a', n: 0 }, 'n'],
    [{ prompt: 'a', n: 11 }, 'n'],
    [{ prompt: 'a', n: 1.5 }, 'n'],
    [{ prompt: 'a', size: 512 }, 'size'],
    [{ prompt: 'a', quality: 'x'.repeat(65) }, 'quality'],
    [{ prompt: 'a', output_format: '' }, 'output_format'],
    [{ prompt: 'a', seed: 0.5 }, 'seed'],
  ]
  for (const [body, param] of rows) {
    const response = await gateway.post('/v1/image', body)
    t.equal(response.status, 400, JSON.stringify(body).slice(0, 60))
    t.match(await response.json(), { error: { code: 'INVALID_REQUEST', param } })
  }
  t.equal(gateway.upstream.received.length, 0)
})
