import type { ParsedResponse, ResponseStreamEvent } from 'openai/resources/responses/responses'
import t from 'tap'
import { assertStopsClean } from '../support/gateway.ts'
import { startLarkway } from '../support/larkway.ts'
import { doorClient } from '../support/openai-door.ts'

const MORSE = '... --- ...'
const ASK = { model: 'gpt-4o', input: 'sos' }
const WEATHER = {
  type: 'function' as const,
  name: 'weather',
  description: 'what the weather is like',
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  strict: false,
}

t.test('responses, by the official client', { timeout: 60_000 }, async (t) => {
  const larkway = await startLarkway(t)
  const { openai, headers } = doorClient(larkway)

  const whole = await openai.responses.create({ ...ASK, instructions: 'be short', metadata: { a: 'b' } })
  const id = headers().get('x-request-id') ?? ''
  t.match(whole, {
    id,
    object: 'response',
    status: 'completed',
    model: 'morse-1',
    instructions: 'be short',
    metadata: { a: 'b' },
    store: false,
    error: null,
    incomplete_details: null,
    output: [
      {
        type: 'message',
        role: 'assistant',
        status: 'completed',
        content: [{ type: 'output_text', text: MORSE, annotations: [] }],
      },
    ],
    output_text: MORSE,
    usage: { total_tokens: Number(headers().get('x-lk-usage-total-tokens')) },
  })
  t.ok(Math.abs(whole.created_at - Date.now() / 1000) < 60)

  const seen: ResponseStreamEvent[] = []
  for await (const event of await openai.responses.create({ ...ASK, stream: true })) seen.push(event)
  t.same(
    seen.map(({ sequence_number: number }) => number),
    seen.map((_, index) => index),
  )
  const kinds = seen.map(({ type }) => type).filter((type, index, all) => type !== all[index - 1])
  t.same(kinds, [
    'response.created',
    'response.in_progress',
    'response.output_item.added',
    'response.content_part.added',
    'response.output_text.delta',
    'response.output_text.done',
    'response.content_part.done',
    'response.output_item.done',
    'response.completed',
  ])

  // The client's own reader of streams puts the events together, and fails at what it does not understand.
  const stream = openai.responses.stream(ASK)
  const final: ParsedResponse<null> = await stream.finalResponse()
  t.equal(final.output_text, MORSE)
  t.match(final, { status: 'completed', usage: { output_tokens: 3 } })

  await t.test('tools, called and answered', async (t) => {
    for (const streamed of [false, true]) {
      const ask = {
        model: 'gpt-4o',
        tools: [WEATHER],
        input: [{ role: 'user' as const, content: 'the weather in Oslo' }],
      }
      const first = streamed
        ? await openai.responses.stream(ask).finalResponse()
        : await openai.responses.create(ask)
      const output = first.output.flatMap((item) => {
        if (item.type !== 'function_call') return []
        t.match(item, { name: 'weather', status: 'completed' })
        t.same(JSON.parse(item.arguments), { city: 'the weather in Oslo' })
        return [{ type: 'function_call_output' as const, call_id: item.call_id, output: 'sun' }]
      })
      t.equal(output.length, 1)
      const second = await openai.responses.create({
        ...ask,
        input: [...ask.input, ...first.output, ...output] as never,
      })
      t.equal(second.output_text, '... ..- -.', streamed ? 'streamed' : 'whole')
    }
  })
  await assertStopsClean(t, larkway)
})
