import t from 'tap'
import { readTestTiming } from '../../../src/gateway/node/timing.ts'

t.test('durations are for tests alone', async (t) => {
  const LARKWAY_TEST_TIMING = JSON.stringify({ jobs: { leaseMs: 5_000 }, calls: { slotGraceMs: 1 } })
  t.same(readTestTiming({ NODE_ENV: 'test', LARKWAY_TEST_TIMING }), JSON.parse(LARKWAY_TEST_TIMING))
  t.same(readTestTiming({ NODE_ENV: 'test' }), {})
  for (const NODE_ENV of [undefined, '', 'production'])
    t.throws(() => readTestTiming({ NODE_ENV, LARKWAY_TEST_TIMING }), {
      message: 'environment: LARKWAY_TEST_TIMING is for tests, with NODE_ENV=test',
    })
})

t.test('durations that no part of a node has are refused', async (t) => {
  const rows = [
    ['{"jbos":{}}', 'has no jbos'],
    ['7', 'must be an object'],
    ['null', 'must be an object'],
  ] as const
  for (const [given, complaint] of rows)
    t.throws(() => readTestTiming({ NODE_ENV: 'test', LARKWAY_TEST_TIMING: given }), {
      message: `environment: LARKWAY_TEST_TIMING ${complaint}`,
    })
})
