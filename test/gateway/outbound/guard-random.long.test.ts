import { Socket } from 'node:net'
import t from 'tap'
import { createAudioFetcher } from '../../../src/gateway/outbound/fetch-audio.ts'
import { createWebhookPoster } from '../../../src/gateway/outbound/post-webhook.ts'
import { fetched } from '../../support/audio-fetch.ts'
import { Dice } from '../../support/dice.ts'
import { drawAddresses, HAS_PYTHON, verdictsOf } from '../../support/guard-addresses.ts'
import { PUBLIC } from '../../support/guard-dns.ts'

t.setTimeout(120_000)

const skip = HAS_PYTHON ? false : 'python3 is not here'
const URL_OF_AUDIO = 'https://good.example/a.wav'
const URL_OF_HOOK = 'https://hooks.example/'

/** A network without hosts that writes down who was looked for. */
function deserted() {
  const dialled: string[] = []
  const dial = (address: string) => {
    dialled.push(address)
    const socket = new Socket()
    socket.destroy(new Error('nobody is there'))
    return socket
  }
  return { dial, dialled }
}

/** Addresses, those of the two families in turns, each with the verdict of another implementation. */
function drawJudged(seed: number, count: number): [address: string, isPublic: boolean][] {
  const dice = new Dice(seed)
  const four = drawAddresses(dice, 4, count / 2)
  const six = drawAddresses(dice, 6, count / 2)
  const addresses = four.flatMap((address, index) => [address, six[index]!])
  const verdicts = verdictsOf(addresses)
  return addresses.map((address, index) => [address, verdicts[index]!])
}

t.test('10,000 random answers of the DNS, through both guards', { skip }, async (t) => {
  const { dial, dialled } = deserted()
  let addresses: readonly string[] = []
  const way = { resolve: async () => addresses, dial }
  const fetchAudio = createAudioFetcher(way)
  const post = createWebhookPoster({ ...way, insecure: false })
  const judged = drawJudged(4_711, 10_000)
  const wrong: string[] = []
  let dials = 0
  for (const [index, [address, isPublic]] of judged.entries()) {
    // Every other one beside an address that is in order.
    addresses = index % 4 < 2 ? [address] : [PUBLIC, address]
    const expected = isPublic ? addresses : []
    for (const ask of [
      () => fetched(fetchAudio, URL_OF_AUDIO),
      async () => (await post(URL_OF_HOOK, { headers: {}, body: '{}' })).kind,
    ]) {
      dialled.length = 0
      const word = await ask()
      const isRefused = word === 'AUDIO_URL_REJECTED address_not_public' || word === 'refused'
      if (isRefused === isPublic || dialled.join() !== expected.join()) wrong.push(`${addresses}: ${word}`)
      dials += dialled.length
    }
  }
  t.same(wrong, [], 'no wrong verdict')
  t.ok(dials > 5_000, `${dials} were dialled`)
})
