import { readFile } from 'node:fs/promises'
import { test } from 'tap'

const TOKENS = new URL('../../../src/console/page/style/tokens.css', import.meta.url)
const THEMES = ['light', 'dark'] as const
/** WCAG 2.2, 1.4.3: text. */
const TEXT = 4.5
/** WCAG 2.2, 1.4.11: edges of controls, and lines of charts. */
const GRAPHIC = 3

type Colour = readonly [light: string, dark: string]

async function colours(): Promise<ReadonlyMap<string, Colour>> {
  const css = await readFile(TOKENS, 'utf8')
  const found = new Map<string, Colour>([['on-accent', ['#ffffff', '#ffffff']]])
  for (const [, name = '', light = '', dark = ''] of css.matchAll(
    /--([\w-]+): light-dark\((#\w{6}), (#\w{6})\);/g,
  ))
    found.set(name, [light, dark])
  return found
}

/** WCAG 2.2, relative luminance. */
function luminance(hex: string): number {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5]
    .map((at) => Number.parseInt(hex.slice(at, at + 2), 16) / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue
}

function contrast(one: string, other: string): number {
  const [low = 0, high = 0] = [luminance(one), luminance(other)].sort((a, b) => a - b)
  return (high + 0.05) / (low + 0.05)
}

const across = (inks: readonly string[], grounds: readonly string[]) =>
  inks.flatMap((ink) => grounds.map((ground) => [ink, ground] as const))

test('every colour can be read on its background, in both themes', async (t) => {
  const tokens = await colours()
  const tones = ['ok', 'warn', 'bad', 'accent']
  const text = [
    ...across(['ink', 'ink-2', 'ink-3', ...tones], ['page', 'raised', 'sunken', 'hover']),
    ...tones.flatMap((tone) => across([tone, 'ink', 'ink-2'], [`${tone}-soft`])),
    ...across(['on-accent'], ['accent-solid', 'accent-solid-hover', 'bad-solid']),
  ]
  const graphics = [
    ...across(
      [1, 2, 3, 4, 5, 6].map((number) => `series-${number}`),
      ['page', 'raised'],
    ),
    ...across(['edge'], ['page', 'raised', 'sunken']),
    ...across(['accent-solid', 'warn-solid', 'bad-solid'], ['page']),
  ]
  const faults = [
    ...text.map((pair) => [pair, TEXT] as const),
    ...graphics.map((pair) => [pair, GRAPHIC] as const),
  ]
    .flatMap(([[ink, ground], least]) =>
      THEMES.map((theme, index) => {
        const [one, other] = [tokens.get(ink)?.[index], tokens.get(ground)?.[index]]
        if (one === undefined || other === undefined) return `${ink} or ${ground} is no colour`
        const ratio = contrast(one, other)
        return ratio < least ? `${theme}: ${ink} on ${ground} is ${ratio.toFixed(2)}, under ${least}` : null
      }),
    )
    .filter((fault) => fault !== null)
  t.same(faults, [])
})

test('the contrast is that of the standard', async (t) => {
  t.equal(contrast('#000000', '#ffffff'), 21)
  t.equal(contrast('#777777', '#ffffff').toFixed(2), '4.48')
})
