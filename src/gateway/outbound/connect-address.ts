import { connect, isIPv6, type Socket, SocketAddress } from 'node:net'
import { connect as startTls, type TLSSocket } from 'node:tls'
import { type Clock, timed } from '../../contracts/time.ts'
import { type EgressProxy, secureOptions } from './egress-proxy.ts'

/** Begins a TCP connection to an IP address. */
export type Dial = (address: string, port: number) => Socket

/** The socket is connected to another address than was asked for. */
class WrongPeer extends Error {
  override readonly name = 'WrongPeer'
}

/** An IP address is taken as it is: no lookup is made for it. */
export const dialAddress: Dial = (address, port) => connect({ host: address, port, autoSelectFamily: false })

export interface Peer {
  /** In the order to be tried; the next one only when no TCP connection to the one before comes about. */
  readonly addresses: readonly string[]
  readonly port: number
}

export interface SecurePeer extends Peer {
  /** The name in the certificate, or the address in it, without brackets. */
  readonly host: string
}

export interface ConnectOptions {
  readonly dial: Dial
  /** The socket's own word for its peer has to be the address dialled. */
  readonly verifyPeer: boolean
  readonly egress?: EgressProxy | undefined
  /** Certificates to trust instead of the system's, PEM. */
  readonly ca: string | undefined
  readonly limitMs: number
  /** Ends the connecting at once, and leaves nothing of it. */
  readonly signal: AbortSignal
  readonly clock: Clock
}

/**
 * A TLS connection to a host at one of its addresses, of its own: it is in no pool and keeps no session.
 *
 * @throws what the last address, or TLS, failed with; the signal's reason when aborted
 */
export async function connectAddress(peer: SecurePeer, options: ConnectOptions): Promise<TLSSocket> {
  const { egress } = options
  const tunnelled: typeof connected = (host, port, limitMs, { signal }) =>
    egress!.open({ host, port }, limitMs, signal)
  const open = egress?.leadsTo(peer) ? tunnelled : connected
  return secure(await connectPlain(peer, options, open), peer, options)
}

/**
 * A TCP connection to one of the addresses. One that swallows packets gets its share of the time only, so that the next
 * one has some left.
 *
 * @throws what the last address failed with; the signal's reason when aborted
 */
export async function connectPlain(
  { addresses, port }: Peer,
  options: ConnectOptions,
  open = connected,
): Promise<Socket> {
  const { clock } = options
  const untilMs = clock.now() + options.limitMs
  for (const [index, address] of addresses.entries()) {
    const shareMs = (untilMs - clock.now()) / (addresses.length - index)
    try {
      return await open(address, port, shareMs, options)
    } catch (cause) {
      if (options.signal.aborted || index === addresses.length - 1) throw cause
    }
  }
  throw new Error('there is no address to connect to')
}

async function connected(
  address: string,
  port: number,
  limitMs: number,
  { dial, verifyPeer, signal, clock }: ConnectOptions,
): Promise<Socket> {
  const socket = dial(address, port)
  await timed(limitMs, signal, (ended) => settled(socket, 'connect', ended), clock)
  if (verifyPeer && !isSameAddress(socket.remoteAddress, address)) {
    socket.destroy()
    throw new WrongPeer(`connected to ${socket.remoteAddress} instead of ${address}`)
  }
  return socket
}

/** Starts TLS. The environment's NODE_TLS_REJECT_UNAUTHORIZED has no effect here. */
async function secure(socket: Socket, peer: SecurePeer, { ca, signal }: ConnectOptions): Promise<TLSSocket> {
  const secured = startTls({
    socket,
    ...secureOptions(peer),
    minVersion: 'TLSv1.2',
    rejectUnauthorized: true,
    ...(ca === undefined ? {} : { ca }),
  })
  await settled(secured, 'secureConnect', signal)
  return secured
}

/** Waits for the event. When it does not come, or when the signal aborts, the socket is destroyed. */
function settled(socket: Socket, event: 'connect' | 'secureConnect', signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const leave = () => socket.destroy(signal.reason)
    const done = () => signal.removeEventListener('abort', leave)
    // Stays on: a socket may fail between two of its uses.
    socket.on('error', (cause) => {
      done()
      reject(cause)
    })
    socket.once('close', () => {
      done()
      reject(new Error(`closed before its ${event}`))
    })
    socket.once(event, () => {
      done()
      resolve()
    })
    signal.addEventListener('abort', leave, { once: true })
    if (signal.aborted) leave()
  })
}

/** An IPv6 address has several spellings. */
function isSameAddress(left: string | undefined, right: string): boolean {
  return left !== undefined && canonical(left) === canonical(right)
}

function canonical(address: string): string {
  return new SocketAddress({ address, family: isIPv6(address) ? 'ipv6' : 'ipv4' }).address
}
