import { context, propagation, type Span, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { Resource } from '@opentelemetry/resources';
import { BatchSpanProcessor, NodeTracerProvider } from '@opentelemetry/sdk-trace-node';
import type { WorkflowClientInterceptor } from '@temporalio/client';
import { OpenTelemetryActivityInboundInterceptor } from '@temporalio/interceptors-opentelemetry/lib/worker/index.js';
import { OpenTelemetryWorkflowClientInterceptor } from '@temporalio/interceptors-opentelemetry/lib/client/index.js';
import type { ActivityInterceptorsFactory } from '@temporalio/worker';
import type { FastifyInstance, FastifyRequest } from 'fastify';

/*
 * A trace begins with a request, or continues the caller's `traceparent`, and includes the activities of the workflows
 * that the request starts. The workflows themselves make no spans: they only pass the header on (see
 * src/workflows/interceptors.ts), since the SDK's interceptor would double the code in the memory of every cached run.
 */

export interface Tracing {
  /** for clients: starts of workflows */
  client: WorkflowClientInterceptor;
  /** for workers: activities */
  activity: ActivityInterceptorsFactory;
  /** adds a span for each request */
  requests(app: FastifyInstance): void;
  /** Sends the remaining spans. */
  close(): Promise<void>;
}

/** Sends spans to an OpenTelemetry collector over HTTP. `endpoint`: without `/v1/traces`. Once per process. */
export function startTracing(endpoint: string, serviceName: string): Tracing {
  const exporter = new OTLPTraceExporter({ url: `${endpoint.replace(/\/+$/, '')}/v1/traces` });
  const provider = new NodeTracerProvider({
    resource: Resource.default().merge(new Resource({ 'service.name': serviceName })),
    spanProcessors: [new BatchSpanProcessor(exporter)],
  });
  provider.register();
  return {
    client: new OpenTelemetryWorkflowClientInterceptor(),
    activity: (ctx) => ({ inbound: new OpenTelemetryActivityInboundInterceptor(ctx) }),
    requests: traceRequests,
    close: () => provider.shutdown(),
  };
}

function traceRequests(app: FastifyInstance): void {
  const tracer = trace.getTracer('email-mailbox-api');
  const spans = new WeakMap<FastifyRequest, Span>();
  app.addHook('preHandler', (request, _reply, done) => {
    const { method, headers, routeOptions } = request;
    const parent = propagation.extract(context.active(), headers);
    const route = routeOptions.url ?? 'unknown';
    const attributes = { 'http.request.method': method, 'http.route': route, 'request.id': request.id };
    const span = tracer.startSpan(`${method} ${route}`, { kind: SpanKind.SERVER, attributes }, parent);
    spans.set(request, span);
    context.with(trace.setSpan(parent, span), done);
  });
  app.addHook('onResponse', async (request, reply) => {
    const span = spans.get(request);
    span?.setAttribute('http.response.status_code', reply.statusCode);
    if (reply.statusCode >= 500) span?.setStatus({ code: SpanStatusCode.ERROR });
    span?.end();
  });
}
