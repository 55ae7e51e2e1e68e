import { once } from 'node:events'
import t from 'tap'
import { dialAddress } from '../../src/outbound/connect-address.ts'
import { OTHER_ADDRESSES, PUBLIC_ADDRESSES } from '../support/guard-addresses.ts'
import { PUBLIC } from '../support/guard-dns.ts'
import { HAS_IPV6, startGuardRig } from '../support/guard-rig.ts'
import { serveTcp } from '../support/tls-host.ts'
import { waitUntil } from '../support/wait-until.ts'

t.setTimeout(120_000)

const REFUSED = 'AUDIO_URL_REJECTED address_not_public'
const URL_OF_AUDIO = 'https://good.example/a.wav'
const URL_OF_HOOK = 'https://hooks.example/'
const AUDIO = { domains: ['good.example'] }

t.test('an address that is not public is not dialled, by none of the ways', async (t) => {
  let addresses: readonly string[] = []
  const rig = await startGuardRig(t, { ...AUDIO, resolve: async () => addresses })
  t.equal(await rig.putWebhook(URL_OF_HOOK), 200)
  for (const [index, address] of OTHER_ADDRESSES.entries()) {
    const among = [
      [PUBLIC, address],
      [address, PUBLIC],
      [...Array(8).fill(PUBLIC), address],
    ]
    for (addresses of [[address], among[index % among.length]!]) {
      const name = `${address}, ${addresses.length}`
      t.equal(await rig.transcribe(URL_OF_AUDIO), REFUSED, name)
      const { id, word } = await rig.run(URL_OF_AUDIO)
      t.equal(word, `failed: ${REFUSED}`, 'by a job')
      t.equal(await rig.delivery(id!), 'the host has an address that is not public', 'by its event')
    }
  }
  t.same([rig.dialled, rig.sentinels(), rig.heard()], [[], 0, 0])
})

t.test('every public address is dialled, by all of the ways', async (t) => {
  let address = ''
  const rig = await startGuardRig(t, { ...AUDIO, resolve: async () => [address] })
  t.equal(await rig.putWebhook(URL_OF_HOOK), 200)
  for (address of PUBLIC_ADDRESSES) {
    rig.dialled.length = 0
    t.equal(await rig.transcribe(URL_OF_AUDIO), 'heard', address)
    const { id, word } = await rig.run(URL_OF_AUDIO)
    t.equal(word, 'heard', 'by a job')
    t.equal(await rig.delivery(id!), 'delivered', 'and so is its event')
    t.same(rig.dialled, Array(3).fill(`${address} 443`))
  }
  t.equal(rig.sentinels(), 0)
})

t.test('what a guard that let them through would show', async (t) => {
  const rig = await startGuardRig(t, AUDIO)
  for (const address of OTHER_ADDRESSES) await once(rig.dial(address, 443), 'connect')
  t.ok(await waitUntil(() => rig.sentinels() === OTHER_ADDRESSES.length), `${rig.sentinels()} are counted`)
  t.equal(rig.dialled.length, OTHER_ADDRESSES.length)
})

/** Each of them is this machine. */
const LOOPBACKS = ['127.0.0.1', '127.255.255.254', '0.0.0.0', '::ffff:127.0.0.1']
const LOOPBACKS_SIX = HAS_IPV6 ? ['::1', '::'] : []

t.test('listeners on this machine hear nothing when the kernel itself is dialled', async (t) => {
  const four = await serveTcp(t, '0.0.0.0')
  const six = HAS_IPV6 ? await serveTcp(t, '::1') : null
  const made = () => four.connections.made + (six?.connections.made ?? 0)
  // Nobody may listen on port 443 here.
  const dial = (address: string) =>
    dialAddress(address, LOOPBACKS_SIX.includes(address) ? six!.port : four.port)
  for (const address of [...LOOPBACKS, ...LOOPBACKS_SIX]) {
    const before = made()
    const socket = dial(address)
    await once(socket, 'connect')
    t.ok(await waitUntil(() => made() === before + 1), `${address} leads there`)
    socket.destroy()
  }

  let address = ''
  const rig = await startGuardRig(t, { ...AUDIO, resolve: async () => [address], dial })
  const before = made()
  t.equal(await rig.putWebhook(URL_OF_HOOK), 200)
  for (address of [...LOOPBACKS, ...LOOPBACKS_SIX]) {
    t.equal(await rig.transcribe(URL_OF_AUDIO), REFUSED, address)
    const { id, word } = await rig.run(URL_OF_AUDIO)
    t.equal(word, `failed: ${REFUSED}`)
    t.equal(await rig.delivery(id!), 'the host has an address that is not public')
  }
  t.equal(made(), before)
})
