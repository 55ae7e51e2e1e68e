import { createServer } from 'node:net'
import type { Test } from 'tap'
import { listen } from './http-server.ts'

/** A provider that answers any request with the bytes that it was given. */
export interface RawUpstream {
  /** As a provider's `base_url`. */
  readonly url: string
  /** Every request as it came, as text of latin1. */
  readonly received: string[]
  /** What it answers, as text of latin1; the connection is closed behind it. */
  answer: string
}

const LAST_CHUNK = /(?:^|\r\n)0\r\n\r\n$/

export async function startRawUpstream(t: Test, answer: string): Promise<RawUpstream> {
  const upstream = { url: '', received: [] as string[], answer }
  const server = createServer((socket) => {
    let text = ''
    socket.on('error', () => socket.destroy())
    socket.on('data', (bytes) => {
      text += bytes.toString('latin1')
      if (!isWhole(text)) return
      upstream.received.push(text)
      text = ''
      socket.end(upstream.answer, 'latin1')
    })
  })
  upstream.url = `${await listen(t, server)}/v1`
  return upstream
}

function isWhole(text: string): boolean {
  const headEnd = text.indexOf('\r\n\r\n') + 4
  if (headEnd < 4) return false
  const head = text.slice(0, headEnd)
  const length = /\r\ncontent-length: *(\d+)\r\n/i.exec(head)?.[1]
  if (length !== undefined) return text.length >= headEnd + Number(length)
  return !/\r\ntransfer-encoding:/i.test(head) || LAST_CHUNK.test(text.slice(headEnd))
}
