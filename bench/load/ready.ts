import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { answerTasks } from './task.ts'

/** Asks a server that is starting until it answers with 200. */
export interface ReadyTask {
  readonly port: number
  readonly path: string
  /** How long to ask. */
  readonly forMs: number
}

/** When the first 200 arrived, as `Date.now()` has it; null when none did. */
export type ReadyReport = number | null

/** Finer than any start that is measured, and rare enough to take no core from the server. */
const EVERY_MS = 4

answerTasks(async ({ port, path, forMs }: ReadyTask): Promise<ReadyReport> => {
  const deadline = Date.now() + forMs
  do {
    if (await answers(port, path)) return Date.now()
    await sleep(EVERY_MS)
  } while (Date.now() < deadline)
  return null
})

function answers(port: number, path: string): Promise<boolean> {
  return new Promise((done) => {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true })
    const end = (ready: boolean) => {
      socket.destroy()
      done(ready)
    }
    socket.setTimeout(1_000, () => end(false))
    socket.once('connect', () => socket.write(`GET ${path} HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\n\r\n`))
    socket.once('data', (reply) => end(reply.toString('latin1').startsWith('HTTP/1.1 200')))
    socket.once('error', () => end(false))
    socket.once('close', () => end(false))
  })
}
