import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import type { Page } from 'playwright-core'

// Checks for every page, read from the browser's rendering. The checks that run in the page are texts:
// its types are not those of Node.

/** The sum of unexpected layout shifts since the page was opened (CLS without its windows). */
export const WATCH_SHIFTS = `
  globalThis.shifted = { sum: 0, what: [] }
  new PerformanceObserver((list) => {
    for (const { value, hadRecentInput, sources } of list.getEntries()) {
      if (hadRecentInput) continue
      shifted.sum += value
      shifted.what.push(...sources.map(({ node }) => node?.className || node?.nodeName))
    }
  }).observe({ type: 'layout-shift', buffered: true })`

export function shiftsOf(page: Page): Promise<{ readonly sum: number; readonly what: readonly string[] }> {
  return page.evaluate('shifted')
}

/** How far the page can be scrolled sideways, in pixels, at the size that it has by its next frame. */
export function overflowOf(page: Page): Promise<number> {
  // The place of a scroll bar is no part of the root's box.
  return page.evaluate(`new Promise(requestAnimationFrame).then(() => new Promise(requestAnimationFrame)).then(() => {
    const { scrollWidth } = document.documentElement
    return scrollWidth - Math.round(document.documentElement.getBoundingClientRect().width)
  })`)
}

const FAINT_TEXTS = `(() => {
    const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true })
    const known = new Map()
    const read = (color) => {
      if (!known.has(color)) {
        canvas.clearRect(0, 0, 1, 1)
        canvas.fillStyle = color
        canvas.fillRect(0, 0, 1, 1)
        const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data
        known.set(color, [red, green, blue, alpha / 255])
      }
      return known.get(color)
    }
    const over = (top, below) => [0, 1, 2].map((at) => top[at] * top[3] + below[at] * (1 - top[3]))
    const light = (color) => {
      const [red, green, blue] = color.map((part) => part / 255)
        .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
      return 0.2126 * red + 0.7152 * green + 0.0722 * blue
    }
    const behind = (element) => {
      const layers = []
      for (let one = element; one !== null; one = one.parentElement) {
        const color = read(getComputedStyle(one).backgroundColor)
        layers.push(color)
        if (color[3] === 1) break
      }
      return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255])
    }
    const opacityOf = (element) => {
      let opacity = 1
      for (let one = element; one !== null; one = one.parentElement) opacity *= getComputedStyle(one).opacity
      return opacity
    }
    const seen = (element) => {
      const { width, height } = element.getBoundingClientRect()
      return width > 2 && height > 2 && element.checkVisibility({ opacityProperty: true, visibilityProperty: true })
    }
    const fields = 'input:not([type=checkbox], [type=radio], [type=file]), textarea, select'
    const texts = [...document.querySelectorAll('body *')].flatMap((element) => {
      const own = [...element.childNodes].map((node) => node.nodeType === 3 ? node.data : '').join('').trim()
      const typed = element.matches(fields) ? element.value || element.placeholder : ''
      const text = own || typed
      if (!text || element.closest(':disabled, svg, script, style, option, .hidden') || !seen(element)) return []
      const asks = !own && !element.value
      return [{ element, text, style: getComputedStyle(element, asks ? '::placeholder' : null) }]
    })
    return texts.flatMap(({ element, text, style }) => {
      const back = behind(element)
      const color = [...read(style.color)]
      color[3] *= opacityOf(element)
      const [bright, dark] = [light(over(color, back)), light(back)].sort((one, other) => other - one)
      const ratio = (bright + 0.05) / (dark + 0.05)
      const large = Number.parseFloat(style.fontSize) >= (style.fontWeight >= 700 ? 18.66 : 24)
      if (ratio >= (large ? 3 : 4.5)) return []
      const where = element.tagName.toLowerCase() + '.' + element.className
      return [ratio.toFixed(2) + ' "' + text.slice(0, 30) + '" ' + where]
    })
  })()`

/** Texts with too little contrast to their background (WCAG 1.4.3), e.g. `3.91 "Settings" p.quiet`. */
export function faintTexts(page: Page): Promise<readonly string[]> {
  return page.evaluate(FAINT_TEXTS)
}

const NAMED_ROLES = new Set([
  ...['button', 'link', 'textbox', 'searchbox', 'combobox', 'checkbox', 'radio', 'switch', 'tab', 'slider'],
  ...['spinbutton', 'progressbar', 'meter', 'dialog', 'table', 'img', 'listbox', 'menuitem'],
])

/** Elements without an accessible name, by role. */
export async function namelessParts(page: Page): Promise<readonly string[]> {
  const session = await page.context().newCDPSession(page)
  const { nodes } = await session.send('Accessibility.getFullAXTree')
  await session.detach()
  return nodes.flatMap(({ ignored, role, name, description }) => {
    const isNamed = String(name?.value ?? '').trim() !== ''
    const what = String(role?.value)
    return ignored || isNamed || !NAMED_ROLES.has(what) ? [] : [`${what} ${description?.value ?? ''}`.trim()]
  })
}

const AXE = readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/**
 * The rules of axe-core that the page breaks, with the elements that break them. The script comes through the
 * debugger, so that the page's content security policy stays as strict as it is served.
 *
 * @param rules all unless given
 */
export async function axeFaults(page: Page, rules?: readonly string[]): Promise<readonly string[]> {
  if (!(await page.evaluate('"axe" in globalThis'))) await page.evaluate(`${await AXE};0`)
  const only = rules === undefined ? {} : { runOnly: { type: 'rule', values: rules } }
  // Reading style sheets again, for the rules about the turning of a screen, is what a strict policy refuses.
  const options = { resultTypes: ['violations'], preload: false, ...only }
  return page.evaluate(`axe.run(document, ${JSON.stringify(options)}).then(({ violations }) => violations
    .map(({ id, nodes }) => id + ': ' + nodes.map(({ target }) => target.join(' ')).slice(0, 5).join(' | ')))`)
}

/**
 * Controls that Tab does not reach, and those that are reached without a visible focus. Of radio
 * buttons and of parts that the arrow keys lead through, one is reached.
 */
export async function tabFaults(page: Page): Promise<readonly string[]> {
  const count = await page.evaluate<number>(`(() => {
    const all = [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex]')]
    globalThis.stops = all.filter((one) => !one.matches(':disabled, [tabindex="-1"], [type="radio"]:not(:checked)')
      && one.checkVisibility({ visibilityProperty: true }))
    globalThis.reached = new Set()
    document.activeElement?.blur()
    scrollTo(0, 0)
    return stops.length
  })()`)
  const hidden: string[] = []
  for (let step = 0; step < count + 5; step += 1) {
    await page.keyboard.press('Tab')
    const unseen = await page.evaluate<string | null>(`(() => {
      const one = document.activeElement
      if (one === null || one === document.body) return null
      reached.add(one)
      const marks = [one, one.closest('label'), one.nextElementSibling, one.parentElement].filter(Boolean)
      const isMarked = marks.some((mark) => {
        const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(mark)
        return (outlineStyle !== 'none' && outlineWidth !== '0px') || boxShadow !== 'none'
      })
      return isMarked ? null : one.outerHTML.slice(0, 80)
    })()`)
    if (unseen !== null) hidden.push(`focus is not seen: ${unseen}`)
  }
  const missed = await page.evaluate<string[]>(`stops.filter((one) => !reached.has(one) && one.isConnected)
    .map((one) => 'not reached: ' + one.outerHTML.slice(0, 80))`)
  return [...hidden, ...missed]
}

/** Has canvases remember the texts that were drawn on them last, and where. */
export const WATCH_TEXTS = `{
  const { clearRect, fillText } = CanvasRenderingContext2D.prototype
  Object.assign(CanvasRenderingContext2D.prototype, {
    clearRect(...box) {
      this.canvas.texts = []
      clearRect.apply(this, box)
    },
    fillText(text, x, y, ...rest) {
      (this.canvas.texts ??= []).push({ text, x: x / devicePixelRatio, y })
      fillText.call(this, text, x, y, ...rest)
    },
  })
}`

/**
 * Differences between the time axes of all charts of a page that watches texts: the place of the drawing, and the marks
 * with their places.
 */
export function axisFaults(
  page: Page,
): Promise<{ readonly charts: number; readonly faults: readonly string[] }> {
  return page.evaluate(`(() => {
    const axes = [...document.querySelectorAll('.chart-body')].map((chart) => {
      const whole = chart.getBoundingClientRect()
      const drawing = chart.querySelector('.u-over, .bars-svg').getBoundingClientRect()
      const texts = chart.querySelector('canvas')?.texts ?? []
      const lowest = Math.max(...texts.map(({ y }) => y))
      const low = [...chart.querySelectorAll('.bars-low')].map((mark) => {
        const { left, width } = mark.getBoundingClientRect()
        return { text: mark.textContent, x: left + width / 2 - whole.left }
      })
      const marks = [...texts.filter(({ y }) => y === lowest), ...low]
      const ends = { begin: drawing.left - whole.left, end: drawing.right - whole.right }
      const share = (x) => (100 * (x - ends.begin)) / drawing.width
      return Object.entries(ends).concat(marks.map(({ text, x }) => [text, share(x)]))
    })
    const isLike = (axis, other) => axis.length > 3 && axis.length === other.length &&
      axis.every(([text, x], at) => text === other[at][0] && Math.abs(x - other[at][1]) < 1.5)
    const faults = axes.filter((axis) => !isLike(axis, axes[0]))
    return { charts: axes.length, faults: faults.map(String).concat(faults.length ? String(axes[0]) : []) }
  })()`)
}
