import type { TLSSocket, TlsOptions } from 'node:tls'
import { AUTHORITY, headOf } from './audio-fetch.ts'
import { createAuthority, selfSigned } from './certificates.ts'
import type { Answering } from './tls-host.ts'

const DAY_MS = 86_400_000
const day = (days: number) => new Date(Date.now() + days * DAY_MS)

/** Hosts by their TLS, and whether good.example is what they are. */
export const TLS_HOSTS: Record<string, [options: () => TlsOptions, fetched: boolean]> = {
  'a good certificate': [() => AUTHORITY.issue(['good.example']), true],
  'one of several names': [() => AUTHORITY.issue(['a.example', 'good.example']), true],
  'every name of a top-level domain': [() => AUTHORITY.issue(['*.example']), false],
  'another name': [() => AUTHORITY.issue(['other.example']), false],
  'a name below': [() => AUTHORITY.issue(['a.good.example']), false],
  expired: [() => AUTHORITY.issue(['good.example'], { from: day(-30), to: day(-1) }), false],
  'not yet valid': [() => AUTHORITY.issue(['good.example'], { from: day(1), to: day(30) }), false],
  'self-signed': [() => selfSigned(['good.example']), false],
  'of an unknown authority': [() => createAuthority().issue(['good.example']), false],
  'of an authority that only has the name': [
    () => createAuthority(AUTHORITY.name).issue(['good.example']),
    false,
  ],
  'TLS 1.2': [() => ({ ...AUTHORITY.issue(['good.example']), maxVersion: 'TLSv1.2' }), true],
  'TLS 1.1': [
    () => ({
      ...AUTHORITY.issue(['good.example']),
      minVersion: 'TLSv1',
      maxVersion: 'TLSv1.1',
      ciphers: 'DEFAULT@SECLEVEL=0',
    }),
    false,
  ],
  'HTTP/2 only': [() => ({ ...AUTHORITY.issue(['good.example']), ALPNProtocols: ['h2'] }), false],
}

/** Sends a text one byte at a time, over and over. */
export function drip(socket: TLSSocket, text: string, everyMs: number): void {
  let at = 0
  const timer = setInterval(() => socket.write(text[at++ % text.length]!), everyMs)
  socket.on('close', () => clearInterval(timer))
}

/** Hosts that never come to an end: with the limit that ends them, and what is told then. */
export interface SlowHost {
  /** `tcp`: takes connections and says nothing, not even in TLS; `nowhere`: packets are swallowed. */
  readonly host: 'tcp' | 'nowhere' | Answering
  readonly limit: 'connectMs' | 'headMs' | 'bodyMs'
  /** After "the host of audio.url". */
  readonly told: string
}

export const SLOW_HOSTS: Readonly<Record<string, SlowHost>> = {
  'TCP but no TLS': { host: 'tcp', limit: 'connectMs', told: 'cannot be connected to' },
  'no TCP': { host: 'nowhere', limit: 'connectMs', told: 'cannot be connected to' },
  'no answer': { host: () => {}, limit: 'headMs', told: 'did not answer in time' },
  'a head in drops': {
    host: (socket) => drip(socket, `HTTP/1.1 200 OK\r\nX: ${'x'.repeat(1000)}`, 500),
    limit: 'headMs',
    told: 'did not answer in time',
  },
  'a body in drops': {
    host(socket) {
      socket.write(headOf(1000))
      drip(socket, 'x', 500)
    },
    limit: 'bodyMs',
    told: 'is too slow',
  },
}
