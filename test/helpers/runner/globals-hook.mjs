const GLOBALS = new URL('./globals.ts', import.meta.url).href;

/** Outside of jest's own runner, the package only throws. */
export function resolve(specifier, context, next) {
  return specifier === '@jest/globals'
    ? { url: GLOBALS, format: 'module', shortCircuit: true }
    : next(specifier, context);
}
