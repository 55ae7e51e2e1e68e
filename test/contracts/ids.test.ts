import t from 'tap'
import { jobPartition, newId, newJobId, PARTITIONS, partitionOf } from '../../src/contracts/ids.ts'

t.test('a prefix and a ULID in lower case', async (t) => {
  const before = Date.now()
  const id = newId('req')
  t.match(id, /^req_[0-7][0-9a-hjkmnp-tv-z]{25}$/)
  const ms = [...id.slice(4, 14)].reduce(
    (sum, digit) => sum * 32 + '0123456789abcdefghjkmnpqrstvwxyz'.indexOf(digit),
    0,
  )
  t.ok(ms >= before && ms <= Date.now(), 'its first ten characters are the time')
})

t.test('ordered by time, and never the same', async (t) => {
  const ids = Array.from({ length: 50_000 }, () => newId('evt'))
  t.equal(new Set(ids).size, ids.length)
  const times = ids.map((id) => id.slice(4, 14))
  t.same(times, [...times].sort())
})

t.test('every bit of the random part varies', async (t) => {
  const ids = Array.from({ length: 2_000 }, () => newId('key').slice(-16))
  for (let at = 0; at < 16; at += 1) t.equal(new Set(ids.map((id) => id[at])).size, 32)
})

t.test('the partition of a workspace stands in the ids of its jobs', async (t) => {
  for (let i = 0; i < 2_000; i += 1) {
    const workspace = `ws_${i}`
    const id = newJobId(i % 2 === 0 ? 'tj' : 'qj', workspace)
    t.match(id, /^[tq]j_[0-7][0-9a-hjkmnp-tv-z]{25}$/)
    if (jobPartition(id) !== partitionOf(workspace)) t.fail(`${id} of ${workspace}`)
  }
  const used = new Set(Array.from({ length: 2_000 }, (_, i) => partitionOf(`ws_${i}`)))
  t.equal(used.size, PARTITIONS, 'workspaces are spread over all of them')
  t.equal(partitionOf('acme'), 13, 'and stay where they are: it is written into ids that are kept')
})

t.test('what is no id of a job is in no partition', async (t) => {
  const id = newJobId('tj', 'acme')
  const others = [
    '',
    'tj_',
    id.slice(0, -1),
    `${id}0`,
    ` ${id}`,
    `${id}\n`,
    id.toUpperCase(),
    id.replace('tj_', 'req_'),
    id.replace('tj_', 'xj_'),
    // A partition that there is not.
    `${id.slice(0, 13)}z${id.slice(14)}`,
    `${id.slice(0, -1)}u`,
    `${id.slice(0, -1)}{`,
  ]
  for (const other of others) t.equal(jobPartition(other), null, JSON.stringify(other))
})
