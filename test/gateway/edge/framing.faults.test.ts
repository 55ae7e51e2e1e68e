import t, { type Test } from 'tap'
import { countedEdge, cutsOf, leftOpen, outcomesOf, unfinishedHeads } from '../../support/edge-outcome.ts'
import { bytesOf, VECTORS, type Vector } from './framing-vectors.ts'

/** Then every cut is tried, also of what is tens of kilobytes of one letter. */
const LONG = process.env.LARKWAY_TEST_LONG === '1'
const VECTORS_AT_ONCE = 6

t.setTimeout(LONG ? 1_800_000 : 120_000)

/** True if a request in two segments may come to this where the whole one comes to `expected`. */
function mayBecome(seen: string, [id, , expected]: Vector): boolean {
  if (seen === expected) return true
  // Bytes of an earlier segment may look like a second request where the head's rest ends: then this one closes.
  if (seen === `${expected} close` || `${seen} open` === expected) return true
  // Both of two requests are answered where the second comes later; its refusal may cut a refused one, too.
  if (id.startsWith('pipeline')) return /^200 \d, 200(?: 0)?(?: close)?$/.test(seen)
  if (id.endsWith('-smug') && seen === 'cut') return true
  return expected === 'cut' && /^(?:200 \d+ close|4\d\d)$/.test(seen)
}

/**
 * Tells whether a vector is judged by what the parser's memory shows. Where it is cut, bytes that other connections
 * have left there may look like its beginning, so that only the whole of it has one outcome; it smuggles nothing
 * either way.
 */
function isOfMemory([id, raw]: Vector): boolean {
  return id === 'empty-name' || /^transfer-encoding:/im.test(Buffer.from(bytesOf(raw)).toString('latin1'))
}

async function tryVector(t: Test, vector: Vector): Promise<void> {
  const [id, raw, expected] = vector
  const edge = await countedEdge(t)
  const bytes = bytesOf(raw)
  const seen = await outcomesOf(edge.port, bytes, cutsOf(bytes, LONG), expected)
  t.equal(seen.get(0), expected, id)
  const wrong = [...seen].filter(([, outcome]) => !isOfMemory(vector) && !mayBecome(outcome, vector))
  t.same(wrong, [], `${id} is the same in two segments, cut at ${seen.size - 1} places`)
  t.same(
    edge.handled.filter((run) => run.startsWith('/smug')),
    [],
    `${id} smuggles nothing`,
  )
  const requests = id.startsWith('pipeline') ? 2 : 1
  t.ok(edge.handled.length <= requests * seen.size, `${id} runs ${requests} handlers at most`)
  if (expected.startsWith('4') && !isOfMemory(vector))
    t.same(edge.handled, [], `${id} is refused before it is whole`)
  edge.server.close()
}

/** The second waits for uWS's own timer, in real time. */
t.jobs = 2

t.test(
  'each vector has its outcome, and no hidden request runs, whole or cut anywhere',
  { buffered: true },
  async (t) => {
    const remaining = [...VECTORS]
    const work = async () => {
      for (let vector = remaining.shift(); vector !== undefined; vector = remaining.shift())
        await tryVector(t, vector)
    }
    await Promise.all(Array.from({ length: VECTORS_AT_ONCE }, work))
  },
)

t.test(
  'a connection that makes no request is closed, however its bytes come',
  { buffered: true },
  async (t) => {
    const edge = await countedEdge(t)
    const silent = VECTORS.filter(([id, , outcome]) => outcome === 'silent' && !id.startsWith('ck-'))
    const texts = silent.map(([, raw]) => bytesOf(raw))
    t.same(await leftOpen(edge.port, [...unfinishedHeads(), ...texts]), [], 'none is open after 13 s')
    t.same(edge.handled, [])
  },
)
