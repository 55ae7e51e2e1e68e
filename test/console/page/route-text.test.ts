import fc from 'fast-check'
import { load } from 'js-yaml'
import t from 'tap'
import { routeText } from '../../../src/console/page/views/routes/diff.ts'
import { editingOf, routeFields } from '../../../src/console/page/views/routes/editing.ts'
import type { RouteFields } from '../../../src/gateway/catalog/file.ts'

t.test('a route reads as the configuration file has it', async (t) => {
  const text = routeText({
    entries: [
      { retry_empty: true, model: 'whisper-1', provider: 'openai', purposes: ['calls', 'true'] },
      { provider: 'acme.dg', model: 'nova-3', price: { per_hour_usd: 0.26 }, options: {} },
    ],
    strategy: 'priority',
    workspace: 'acme',
  })
  t.equal(
    text,
    [
      ...['workspace: acme', 'entries:', '  - provider: openai', '    model: whisper-1'],
      ...['    purposes: [calls, "true"]', '    retry_empty: true', '  - provider: acme.dg'],
      ...['    model: nova-3', '    options: {}', '    price:', '      per_hour_usd: 0.26'],
    ].join('\n'),
  )
})

t.test('whatever is written is read back the same', async (t) => {
  const text = fc.oneof(
    fc.string(),
    fc.constantFrom('null', '1', '- a', 'a: b', '# no', 'on', '~', "it's", '\u2028'),
  )
  const json = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { depthSize: 'small' },
      text,
      fc.integer(),
      fc.boolean(),
      fc.constant(null),
      fc.array(tie('value'), { maxLength: 3 }),
      fc.dictionary(
        text.filter((key) => key !== '__proto__'),
        tie('value'),
        { maxKeys: 3 },
      ),
    ),
  })).value
  const options = fc.dictionary(
    text.filter((key) => key !== '__proto__'),
    json,
    { maxKeys: 4 },
  )
  fc.assert(
    fc.property(options, text, (value, model) => {
      const route = { workspace: 'acme', entries: [{ provider: 'p', model, options: value }] } as RouteFields
      t.strictSame(
        JSON.parse(JSON.stringify(load(routeText(route)))),
        JSON.parse(JSON.stringify(routeFields(editingOf(route)))),
      )
    }),
    { numRuns: 300 },
  )
})
