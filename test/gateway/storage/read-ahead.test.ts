import { test } from 'tap'
import type { AudioRef } from '../../../src/contracts/audio.ts'
import type { Objects } from '../../../src/contracts/objects.ts'
import { createBudget } from '../../../src/gateway/storage/budget.ts'
import { createReadAhead } from '../../../src/gateway/storage/read-ahead.ts'

const BYTES = Buffer.from('the audio of a job, as it is stored')
const SIGNAL = new AbortController().signal

function audioOf(overrides: Partial<AudioRef> = {}): AudioRef {
  return {
    source: { kind: 'object', key: 'job/acme/tj_1/0' },
    ...{ offset: 0, length: BYTES.length, decodedBytes: BYTES.length },
    ...{ encoding: 'identity', canonical: true, mediaType: null, filename: null },
    ...overrides,
  }
}

function rigOf({ fails = 0, limit = 1024 * 1024 } = {}) {
  let asked = 0
  const store: Pick<Objects, 'get'> = {
    async get(_key, start, end) {
      asked += 1
      if (asked <= fails) throw new Error('the store is away')
      return (async function* () {
        yield BYTES.subarray(start, end)
      })()
    },
  }
  const budget = createBudget(limit)
  const ahead = createReadAhead(store, budget)
  const read = async (start = 0, end = BYTES.length) => {
    const chunks: Uint8Array[] = []
    for await (const chunk of await ahead.get('job/acme/tj_1/0', start, end, SIGNAL)) chunks.push(chunk)
    return Buffer.concat(chunks).toString()
  }
  return { ahead, budget, read, asked: () => asked }
}

test('audio that is read ahead is asked of the store once, and before it is wanted', async (t) => {
  const { ahead, budget, read, asked } = rigOf()
  const stop = ahead.begin(audioOf(), SIGNAL)
  t.equal(asked(), 1)
  t.equal(budget.used, BYTES.length)
  t.equal(await read(), BYTES.toString())
  t.equal(asked(), 1)
  t.equal(await read(), BYTES.toString(), 'another attempt has the same')
  t.equal(asked(), 2, 'and reads for itself')
  stop()
  stop()
  t.equal(budget.used, 0)
})

test('a part of it is another reading, and one that was not wanted is forgotten', async (t) => {
  const { ahead, budget, read, asked } = rigOf()
  const stop = ahead.begin(audioOf(), SIGNAL)
  t.equal(await read(4, 9), 'audio')
  t.equal(asked(), 2)
  stop()
  t.equal(budget.used, 0)
  t.equal(await read(), BYTES.toString())
  t.equal(asked(), 3)
})

test('a store that failed is asked again by whoever needs the audio', async (t) => {
  const { ahead, read, asked } = rigOf({ fails: 1 })
  const stop = ahead.begin(audioOf(), SIGNAL)
  t.equal(await read(), BYTES.toString())
  t.equal(asked(), 2)
  stop()
})

test('nothing is read ahead that is large, in memory already, or has no memory', async (t) => {
  const { ahead, budget, asked } = rigOf()
  ahead.begin(audioOf({ length: 256 * 1024 + 1 }), SIGNAL)()
  ahead.begin(audioOf({ source: { kind: 'memory', blocks: [] } }), SIGNAL)()
  const scarce = rigOf({ limit: BYTES.length - 1 })
  scarce.ahead.begin(audioOf(), SIGNAL)()
  t.same([asked(), scarce.asked(), budget.used, scarce.budget.used], [0, 0, 0, 0])
})
