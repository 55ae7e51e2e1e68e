import t from 'tap'
import { Counters, Histograms, renderReading } from '../../../../src/gateway/observe/metrics/family.ts'
import { readExposition } from '../../../support/exposition.ts'

t.test('a counter has a series for each label set', async (t) => {
  const family = new Counters('larkway_things_total', 'Things.', ['kind', 'colour'])
  family.of('lark', 'brown').add(2)
  family.of('lark', 'brown').add(0.5)
  family.of('key', 'gold').add(1)
  t.equal(
    [...family.render()].join(''),
    [
      '# HELP larkway_things_total Things.',
      '# TYPE larkway_things_total counter',
      'larkway_things_total{kind="lark",colour="brown"} 2.5',
      'larkway_things_total{kind="key",colour="gold"} 1',
      '',
    ].join('\n'),
  )
})

t.test('what is in a label can be anything', async (t) => {
  const family = new Counters('larkway_things_total', 'Things.', ['name'])
  const names = ['"', '\\', '\n', 'a"} 1\nlarkway_forged_total 1', '\\n', 'Grüße \u2028', '']
  for (const [at, name] of names.entries()) family.of(name).add(at)
  const { samples, value } = readExposition([...family.render()].join(''))
  t.equal(samples.length, names.length)
  for (const [at, name] of names.entries()) t.equal(value('larkway_things_total', { name }), at, name)
})

t.test('a histogram counts up to each bound, and all', async (t) => {
  const family = new Histograms('larkway_seconds', 'Seconds.', [], [0.1, 1, 10])
  for (const seconds of [0, 0.1, 0.10001, 1, 10, 10.5, 1000]) family.of().observe(seconds)
  const { value } = readExposition([...family.render()].join(''))
  const upTo = (le: string) => value('larkway_seconds_bucket', { le })
  t.same([upTo('0.1'), upTo('1'), upTo('10'), upTo('+Inf')], [2, 4, 5, 7])
  t.equal(value('larkway_seconds_count'), 7)
  t.ok(Math.abs((value('larkway_seconds_sum') ?? 0) - 1021.70001) < 1e-9)
})

t.test('what is too many is counted together', async (t) => {
  const family = new Counters('larkway_things_total', 'Things.', ['name', 'kind'])
  for (let i = 0; i < 5_000; i += 1) family.of(`thing ${i}`, 'kind').add(1)
  const { samples, value } = readExposition([...family.render()].join(''))
  t.equal(samples.length, 1_001)
  t.equal(value('larkway_things_total'), 5_000, 'nothing is lost')
  t.equal(value('larkway_things_total', { name: 'other', kind: 'other' }), 4_000)
})

t.test('a reading is told like what is counted', async (t) => {
  const values = [[['one'], 1] as const, [['"two"'], Number.POSITIVE_INFINITY] as const]
  const pieces = renderReading({
    name: 'larkway_level',
    help: 'A level.',
    type: 'gauge',
    labels: ['of'],
    values,
  })
  const { value, types } = readExposition([...pieces].join(''))
  t.equal(types.get('larkway_level'), 'gauge')
  t.equal(value('larkway_level', { of: 'one' }), 1)
  t.equal(value('larkway_level', { of: '"two"' }), Number.POSITIVE_INFINITY)
})
