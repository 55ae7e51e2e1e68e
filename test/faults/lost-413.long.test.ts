import t, { type Test } from 'tap'
import { assertStopsClean } from '../support/gateway.ts'
import { startNginx } from '../support/nginx-server.ts'
import { MemoryWatch, residentMiB } from '../support/process-load.ts'
import { tempFolder } from '../support/scratch.ts'
import { withoutServers } from '../support/servers.ts'
import { type EdgeProduct, startEdgeProduct } from './edge-product.ts'
import {
  curlUploads,
  type Framed,
  fetchUploads,
  hasPython,
  nodeUploads,
  pythonUploads,
  rawUploads,
  UPLOADS_AT_ONCE,
  type Uploads,
} from './edge-uploads.ts'

/** Then each client sends 200 uploads in each way, here and behind nginx; and larger ones than the edge discards. */
const LONG = process.env.LARKWAY_TEST_LONG === '1'
const TRIES = LONG ? 200 : 20
const TRIES_BEHIND_NGINX = LONG ? 200 : 6
const MIB = 1024 * 1024
const LIMIT_BYTES = MIB
/** What the edge throws away of a body, at most, before it answers. */
const DISCARDED_MIB = 8
const BASE_MIB = 150

t.setTimeout(LONG ? 1_800_000 : 150_000)

const CLIENTS: readonly (readonly [name: string, uploads: Uploads, lies: boolean])[] = [
  ['a raw socket', rawUploads, true],
  ['node:http', nodeUploads, true],
  ['fetch', fetchUploads, false],
  ['curl', curlUploads, true],
  ...(hasPython ? [['python', pythonUploads, true] as const] : []),
]

interface Way {
  readonly name: string
  readonly framed: Framed
  /** Share of the tries. */
  readonly share: number
  /** Only a client that frames its bodies by hand can send it. */
  readonly isLie: boolean
  readonly answer: string
  /** A client that sends more than it says has the rest read as a request. The native parser refuses that by itself. */
  readonly orParser: boolean
}

const tooLarge = { answer: '413 REQUEST_TOO_LARGE', share: 1, isLie: false, orParser: false }
const SENT = 3 * MIB
const WAYS: readonly Way[] = [
  { ...tooLarge, name: 'with a length', framed: { declares: SENT, bytes: SENT } },
  { ...tooLarge, name: 'chunked', framed: { declares: 'chunked', bytes: SENT } },
  ...(LONG ? [14 * MIB] : []).flatMap((bytes) => [
    { ...tooLarge, name: 'large, with a length', share: 0.2, framed: { declares: bytes, bytes } },
    { ...tooLarge, name: 'large, chunked', share: 0.2, framed: { declares: 'chunked' as const, bytes } },
  ]),
  {
    ...tooLarge,
    name: 'short of its length',
    share: 0.5,
    isLie: true,
    framed: { declares: SENT, bytes: 99 },
  },
  {
    ...{ ...tooLarge, name: 'beyond its length', share: 0.5, isLie: true, orParser: true },
    framed: { declares: 2 * MIB, bytes: SENT },
  },
  {
    ...{ name: 'without a length', share: 1, isLie: true, orParser: true, answer: '411 LENGTH_REQUIRED' },
    framed: { declares: 'none', bytes: SENT },
  },
]

/** @param isDirect whether the edge's own parser meets the bytes */
async function assertAnswered(t: Test, product: EdgeProduct, port: number, isDirect: boolean): Promise<void> {
  const target = { port, authorization: product.authorization, folder: await tempFolder(t) }
  const told: string[] = []
  const clients = CLIENTS.map(async ([client, uploads, lies]) => {
    for (const way of WAYS) {
      if (way.isLie && !lies) continue
      const outcomes = await uploads(target, way.framed, (isDirect ? TRIES : TRIES_BEHIND_NGINX) * way.share)
      const parsers = isDirect ? /^(?:400|505)$/ : /^400 INVALID_REQUEST$/
      const refused = outcomes.filter((outcome) => way.orParser && parsers.test(outcome))
      const lost = outcomes.filter((outcome) => outcome !== way.answer && !refused.includes(outcome))
      // What the parser refuses is closed at once, with what is still to be read: that can take its answer with it.
      if (!isDirect || !way.orParser) t.same(lost, [], `${client}, ${way.name}: every answer arrives`)
      else t.same(lost.filter(isAnswer), [], `${client}, ${way.name}: no other answer arrives`)
      const parts = [`${outcomes.length} ${client}, ${way.name}`, `${refused.length} by a parser`]
      if (lost.length > 0) parts.push(`${lost.length} lost: ${[...new Set(lost)].join(', ')}`)
      told.push(parts.join(', '))
    }
  })
  await Promise.all(clients)
  for (const line of told) t.comment(line)
}

function isAnswer(outcome: string): boolean {
  return /^\d{3}/.test(outcome)
}

for (const isDirect of [true, false]) {
  const skip = isDirect ? false : withoutServers
  t.test(`no 413 is lost${isDirect ? '' : ' behind nginx'}`, { skip }, async (t) => {
    const limits = { max_request_body_bytes: LIMIT_BYTES, max_audio_bytes: 2 * LIMIT_BYTES }
    const product = await startEdgeProduct(t, { limits })
    const { port } = product
    const idleMiB = residentMiB(product.pid)
    const memory = new MemoryWatch(product.pid)
    const facing = isDirect ? port : (await startNginx(t, [port, port, port])).port
    await assertAnswered(t, product, facing, isDirect)
    const heldMiB = memory.stop() - idleMiB
    const connections = UPLOADS_AT_ONCE * CLIENTS.length
    const boundMiB = BASE_MIB + connections * (LIMIT_BYTES / MIB + DISCARDED_MIB)
    t.ok(heldMiB < boundMiB, `${Math.round(heldMiB)} MiB for ${connections} connections`)
    await assertStopsClean(t, product)
  })
}

if (!hasPython) t.test('uploads by Python', { skip: 'there is no python3' }, () => {})
