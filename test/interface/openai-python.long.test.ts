import t from 'tap'
import { assertStopsClean } from '../support/gateway.ts'
import { startLarkway } from '../support/larkway.ts'
import { pythonClient } from '../support/python-client.ts'
import { type ModelEntry, startModelGateway } from './model-gateway.ts'

const ENTRY: ModelEntry = {
  model: 'all',
  capabilities: ['text'],
  price: { per_1m_input_tokens_usd: 1, per_1m_output_tokens_usd: 1 },
}

const openai = await pythonClient('openai')
const run = ({ url, key }: { readonly url: string; readonly key: string }, ...names: string[]) =>
  openai.run('openai-responses.py', [`${url}/openai/v1`, key, ...names])

t.test("Python's openai gets responses", { skip: openai.skip, timeout: 120_000 }, async (t) => {
  const larkway = await startLarkway(t)
  const text = '... --- ...'
  t.same(await run(larkway, 'whole', 'events', 'stream', 'tools', 'refused'), [
    { name: 'whole', text, status: 'completed', tokens: 4 },
    {
      name: 'events',
      types: [
        ...['response.created', 'response.in_progress'],
        ...['response.output_item.added', 'response.content_part.added'],
        ...Array(3).fill('response.output_text.delta'),
        ...['response.output_text.done', 'response.content_part.done', 'response.output_item.done'],
        'response.completed',
      ],
    },
    { name: 'stream', text, status: 'completed' },
    { name: 'tools', arguments: [{ city: 'the weather in Oslo' }], text: '... ..- -.' },
    { name: 'refused', code: 'INVALID_REQUEST', param: 'store', status: 400 },
  ])
  await assertStopsClean(t, larkway)

  const gateway = await startModelGateway(t, [ENTRY])
  gateway.upstream.behave('all', { message: { content: '{"city":"Oslo"}' } })
  t.same(await run(gateway, 'parsed'), [{ name: 'parsed', city: 'Oslo' }])
  gateway.upstream.behave('all', { deltas: ['one ', 'two '], cutAfter: 1 })
  t.same(await run(gateway, 'broken'), [{ name: 'broken', code: 'UPSTREAM_ERROR' }])
  await assertStopsClean(t, gateway)
})
