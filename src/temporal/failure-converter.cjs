// Loaded by path with `require`, by the SDK and by the bundler of workflows: hence CommonJS, and no types.
const { DefaultFailureConverter } = require('@temporalio/common');

/** Messages and stack traces of failures become payloads, which the codec then encrypts. */
exports.failureConverter = new DefaultFailureConverter({ encodeCommonAttributes: true });
