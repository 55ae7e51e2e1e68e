import t from 'tap'
import { bytesOf, VECTORS } from '../inbound/framing-vectors.ts'
import { countedEdge, cutsOf, leftOpen, outcomesOf, unfinishedHeads } from '../support/edge-outcome.ts'
import { startNginx } from '../support/nginx-server.ts'
import { withoutServers } from '../support/servers.ts'

/** Then every cut is tried, also of what is tens of kilobytes of one letter. */
const LONG = process.env.LARKWAY_TEST_LONG === '1'

t.test(
  'behind nginx each vector has its outcome, whole or cut anywhere, and what is refused has no effect',
  { skip: withoutServers, timeout: LONG ? 1_800_000 : 120_000 },
  async (t) => {
    const edge = await countedEdge(t)
    const nginx = await startNginx(t, [edge.port, edge.port, edge.port])
    for (const [id, raw, direct, behindNginx = direct] of VECTORS) {
      edge.handled.length = 0
      const bytes = bytesOf(raw)
      const seen = await outcomesOf(nginx.port, bytes, cutsOf(bytes, LONG), behindNginx)
      const wrong = [...seen].filter(([, outcome]) => outcome !== behindNginx)
      t.same(wrong, [], `${id} is "${behindNginx}", whole and cut at ${seen.size - 1} places`)
      const runs = behindNginx.match(/200/g)?.length ?? 0
      t.equal(edge.handled.length, runs * seen.size, `${id} runs ${runs} handlers`)
      // Where there is no second answer there is no second request.
      const hidden = behindNginx.includes(', 200')
        ? []
        : edge.handled.filter((run) => run.startsWith('/smug'))
      t.same(hidden, [], `${id} smuggles nothing`)
    }
  },
)

t.test(
  'nor does nginx keep a connection that makes no request',
  { skip: withoutServers, timeout: 60_000 },
  async (t) => {
    const edge = await countedEdge(t)
    const nginx = await startNginx(t, [edge.port, edge.port, edge.port])
    t.same(await leftOpen(nginx.port, unfinishedHeads()), [], 'none is open after 13 s')
    t.same(edge.handled, [])
  },
)
