/**
 * Measures how long the event loop is held at a time, ms, until the returned function is called: by the clock, but no
 * longer than this process used the CPU, which it may have waited for.
 */
export function measureHeld(): () => number {
  let most = 0;
  let before = { at: performance.now(), cpu: process.cpuUsage() };
  const measure = () => {
    const now = { at: performance.now(), cpu: process.cpuUsage() };
    const cpuMs = (now.cpu.user + now.cpu.system - before.cpu.user - before.cpu.system) / 1_000;
    most = Math.max(most, Math.min(now.at - before.at, cpuMs));
    before = now;
  };
  const interval = setInterval(measure, 1);
  return () => {
    clearInterval(interval);
    measure();
    return most;
  };
}
