import t from 'tap'
import { isPublicAddress } from '../../../src/gateway/outbound/public-address.ts'
import { Dice } from '../../support/dice.ts'
import {
  drawAddresses,
  HAS_PYTHON,
  MAPPED_ADDRESSES,
  OTHER_ADDRESSES,
  PUBLIC_ADDRESSES,
  verdictsOf,
} from '../../support/guard-addresses.ts'

const NO_ADDRESS = [
  ...['', ' ', 'localhost', 'good.example', '8.8.8.8 ', ' 8.8.8.8', '8.8.8.8\n', '8.8.8.8\0', '8.8.8.8.'],
  ...['8.8.8', '08.8.8.8', '0x8.8.8.8', '134744072', '8.8.8.8:443', '8.8.8.8/32', '8.8.8.8%eth0', '٨.8.8.8'],
  ...['256.8.8.8', '[2606:4700:4700::1111]', '2606:4700:4700::1111%eth0', '2606:4700:4700::1111%'],
  ...['2606:4700:4700::1111%1', '2606:4700:4700::1111/128', '2606:4700:4700::1111::'],
  ...['2606:4700:4700::11111', 'fe80::1%eth0'],
]

t.test('addresses that hosts on the internet have', async (t) => {
  for (const address of PUBLIC_ADDRESSES) t.equal(isPublicAddress(address), true, address)
})

t.test('addresses that lead elsewhere', async (t) => {
  for (const address of OTHER_ADDRESSES) t.equal(isPublicAddress(address), false, address)
})

t.test('IPv4 mapped into IPv6 is not public, whatever it is', async (t) => {
  for (const address of MAPPED_ADDRESSES) t.equal(isPublicAddress(address), false, address)
})

t.test('text that is no address', async (t) => {
  for (const text of NO_ADDRESS) t.equal(isPublicAddress(text), false, JSON.stringify(text))
})

t.test(
  'random addresses, half of them near borders, get the verdict of another implementation',
  { skip: HAS_PYTHON ? false : 'python3 is not here' },
  async (t) => {
    for (const family of [4, 6] as const) {
      const addresses = drawAddresses(new Dice(20_261 + family), family, 10_000)
      const verdicts = verdictsOf(addresses)
      t.equal(verdicts.length, addresses.length)
      const differing = addresses.filter((address, index) => isPublicAddress(address) !== verdicts[index])
      t.same(differing, [], `IPv${family}`)
      const share = verdicts.filter(Boolean).length / verdicts.length
      t.ok(share > 0.2 && share < 0.8, `IPv${family}: both verdicts are drawn, ${share} public`)
    }
  },
)
