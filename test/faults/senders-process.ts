import { setTimeout as sleep } from 'node:timers/promises'
import { type Answered, type AudioUpload, answerOf, tally, uploadsOf } from '../support/audio-upload.ts'
import { RawClient } from '../support/raw-client.ts'
import { filledWav } from '../support/wav.ts'

/** Clients that one process plays. */
export interface SenderOrder {
  readonly port: number
  readonly authorization: string
  readonly clients: number
  readonly audioBytes: number
  /** Pace of each client; null: as fast as it is taken. */
  readonly bytesPerSecond: number | null
}

/** What was answered since the last report. */
export interface Sent {
  /** Bytes of the audio of requests that were answered with 200. */
  readonly bytes: number
  /** As `tally` has them. */
  readonly answers: Readonly<Record<string, number>>
}

/** How often a paced client writes. */
const SLICE_MS = 200
/** How long a client stays away after a failure for which no time was named. */
const RETRY_MS = 2_000

const order = JSON.parse(process.argv[2] ?? '') as SenderOrder
const { raw: upload } = uploadsOf(filledWav(order.audioBytes, 1), order.authorization)
let answers: Answered[] = []

process.on('message', () => {
  const served = answers.filter(({ status }) => status === 200).length
  process.send?.({ bytes: served * order.audioBytes, answers: tally(answers) } satisfies Sent)
  answers = []
})
process.on('disconnect', () => process.exit())
for (let index = 0; index < order.clients; index += 1) void sendOn()

/** One client: a connection for as long as it is answered well, and a fresh one after a pause when not. */
async function sendOn(): Promise<void> {
  for (;;) {
    // So that they do not all write in the same moment.
    if (order.bytesPerSecond !== null) await sleep(Math.random() * SLICE_MS)
    const client = await RawClient.connect(order.port)
    let answer = await sendOne(client)
    while (answer.status === 200) answer = await sendOne(client)
    client.destroy()
    await sleep(answer.retryAfterMs ?? RETRY_MS)
  }
}

async function sendOne(client: RawClient): Promise<Answered> {
  const answering = answerOf(client, 600_000)
  if (order.bytesPerSecond === null) void client.send(Buffer.concat([upload.head, upload.body]))
  else void sendSlowly(client, upload, order.bytesPerSecond)
  const answer = await answering
  answers.push(answer)
  return answer
}

async function sendSlowly(
  client: RawClient,
  { head, body }: AudioUpload,
  bytesPerSecond: number,
): Promise<void> {
  await client.send(head)
  const slice = Math.ceil((bytesPerSecond * SLICE_MS) / 1_000)
  for (let at = 0; at < body.length && !client.closed && !client.socket.destroyed; at += slice) {
    await client.send(body.subarray(at, at + slice))
    await sleep(SLICE_MS)
  }
}
