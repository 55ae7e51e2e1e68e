import { connect } from 'node:net'
import { networkInterfaces } from 'node:os'
import t from 'tap'
import { systemClock } from '../../../src/contracts/time.ts'
import type { ConnectOptions } from '../../../src/gateway/outbound/connect-address.ts'
import { connectAddress, dialAddress } from '../../../src/gateway/outbound/connect-address.ts'
import { AUTHORITY } from '../../support/audio-fetch.ts'
import { serveTls } from '../../support/tls-host.ts'
import { waitUntil } from '../../support/wait-until.ts'

const CERTIFICATE = AUTHORITY.issue(['good.example'])

const connecting = (options: Partial<ConnectOptions> = {}): ConnectOptions => ({
  dial: dialAddress,
  verifyPeer: true,
  ca: AUTHORITY.cert,
  limitMs: 5_000,
  signal: new AbortController().signal,
  clock: systemClock,
  ...options,
})

t.test('a socket has to be connected to the address dialled', async (t) => {
  const host = await serveTls(t, CERTIFICATE, () => {})
  const peer = { addresses: ['127.0.0.1'], port: host.port, host: 'good.example' }
  const socket = await connectAddress(peer, connecting())
  t.equal(socket.remoteAddress, '127.0.0.1')
  t.equal(socket.authorized, true)
  socket.destroy()

  const elsewhere = connectAddress(
    { ...peer, addresses: ['127.0.0.2'] },
    connecting({ dial: (_, port) => connect({ host: '127.0.0.1', port }) }),
  )
  await t.rejects(elsewhere, { name: 'WrongPeer', message: 'connected to 127.0.0.1 instead of 127.0.0.2' })
  t.equal(host.connections.made, 2)
  t.ok(await waitUntil(() => host.connections.open === 0), 'no connection stays')
})

const hasIpv6 = Object.values(networkInterfaces()).some((list) =>
  list?.some(({ address }) => address === '::1'),
)

t.test('an IPv6 address may be spelled as one likes', { skip: !hasIpv6 }, async (t) => {
  const host = await serveTls(t, CERTIFICATE, () => {}, '::1')
  const peer = { addresses: ['0:0:0:0:0:0:0:1'], port: host.port, host: 'good.example' }
  const socket = await connectAddress(peer, connecting())
  t.equal(socket.remoteAddress, '::1')
  socket.destroy()
})
