#!/usr/bin/python3
"""An Iceberg REST catalog that behaves as its first path segment says: well, or as no server should.

catalog_server.py --directory DIR [--certificate FILE --key FILE [--client-ca FILE]]

Listens on 127.0.0.1 and writes its port to DIR/port. Each request is a line in DIR/log. http://.../lake/NAME is read
from DIR/NAME.json at each request: {"namespaces": {"a": ["t"], "a\\u001fb": []}, "page": 100, ...}.
"""
import argparse
import gzip
import http.server
import json
import os
import re
import socket
import ssl
import threading
import time
import urllib.parse
import uuid

SEPARATOR = '\x1f'
BOMB = gzip.compress(b' ' * (64 * 1024 * 1024), 1)
log_lock = threading.Lock()
counters = {}


def counter(name):
    """How often it was asked for this name before."""
    with log_lock:
        counters[name] = counters.get(name, 0) + 1
        return counters[name] - 1


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    etags = False
    last_token = 'absent'

    def log_message(self, *arguments):
        pass

    def note(self):
        with log_lock:
            with open(os.path.join(options.directory, 'log'), 'a', encoding='utf-8', errors='surrogateescape') as log:
                log.write('%s %s %s%s\n' % (self.command, self.path, self.headers.get('Authorization', '-'),
                                            ' if-none-match' if 'If-None-Match' in self.headers else ''))

    def answer(self, document, status=200, headers=()):
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        if self.etags and status == 200:
            etag = '"%s"' % uuid.uuid5(uuid.NAMESPACE_URL, body.decode())
            headers = [('ETag', etag)]
            if self.headers.get('If-None-Match') == etag:
                self.send_response(304)
                self.send_header('ETag', etag)
                self.end_headers()
                return
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def raw(self, data):
        """Bytes as they are; the connection ends after them."""
        self.close_connection = True
        self.wfile.write(data)
        self.wfile.flush()

    def do_POST(self):
        self.note()
        form = urllib.parse.parse_qs(self.rfile.read(int(self.headers.get('Content-Length', 0))).decode())
        if os.path.exists(os.path.join(options.directory, 'tokens.down')):
            self.answer({'error': 'unavailable'}, 500)
        elif form.get('client_secret') != ['s3cret&=']:
            self.answer({'error': 'invalid_client'}, 401)
        else:
            # /oauth/tokens, or /oauth-SECONDS/tokens
            life = self.path.split('/')[1].split('-')[1:]
            self.answer({'access_token': 'token-%d' % counter('tokens'), 'token_type': 'bearer', 'expires_in': int(life[0]) if life else 3600})

    def do_GET(self):
        self.note()
        url = urllib.parse.urlsplit(self.path)
        self.query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True, errors='surrogateescape'))
        # split first, decode afterwards: a name may have any character in it
        self.segments = [urllib.parse.unquote(s, errors='surrogateescape') for s in url.path.split('/')[1:]]
        scenario = self.segments.pop(0)
        try:
            if scenario == 'lake':
                self.lake(self.segments.pop(0))
            elif scenario.startswith('big-'):
                self.big(*map(int, scenario.split('-')[1:]))
            else:
                getattr(self, scenario.split('-')[0])(*scenario.split('-')[1:])
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    # --- well-behaved

    def paged(self, key, entries, size, make=lambda entry: entry):
        first = int(self.query.get('pageToken') or 0)
        document = {key: [make(entry) for entry in entries[first:first + size]]}
        if first + size < len(entries):
            document['next-page-token'] = str(first + size)
        elif self.last_token != 'absent':
            document['next-page-token'] = {'null': None, 'empty': ''}[self.last_token]
        self.answer(document)

    def table(self, name, properties=None):
        self.answer({'metadata-location': 'file:///x', 'metadata': {
            'table-uuid': str(uuid.uuid5(uuid.NAMESPACE_URL, name)), 'properties': properties or {}}, 'config': {}})

    def config(self, **more):
        if self.segments[:2] == ['v1', 'config']:
            self.answer(dict({'defaults': {}, 'overrides': {}}, **more))
            return True
        return False

    def lake(self, name):
        with open(os.path.join(options.directory, name + '.json'), encoding='utf-8') as file:
            lake = json.load(file)
        self.etags = lake.get('etags', False)
        self.last_token = lake.get('last_token', 'absent')
        for pattern, status in lake.get('status', {}).items():
            if re.search(pattern, self.path):
                self.answer({'error': {'message': 'as told'}}, status)
                return
        tokens = lake.get('tokens')
        if tokens and self.headers.get('Authorization') not in ['Bearer ' + t for t in tokens]:
            self.answer({'error': 'expired'}, lake.get('expired', 401))
            return
        # a token is good for so many questions
        if 'token_uses' in lake and counter(self.headers.get('Authorization', '-')) >= lake['token_uses']:
            self.answer({'error': 'expired'}, lake.get('expired', 401))
            return
        if self.config(**lake.get('config', {})):
            return
        prefix = [s for s in lake.get('prefix', '').split('/') if s]
        if self.segments[:1 + len(prefix) + 1] != ['v1'] + prefix + ['namespaces']:
            self.answer({'error': 'not here'}, 404)
            return
        separator = urllib.parse.unquote(lake.get('separator', '%1F'))
        rest = self.segments[2 + len(prefix):]
        size = lake.get('page', 100)
        if not lake.get('pages', True) or 'pageToken' not in self.query:
            size = 10 ** 9
        names = [n.split(SEPARATOR) for n in lake['namespaces']]
        if not rest:
            parent = self.query['parent'].split(separator) if self.query.get('parent') else []
            if lake.get('flat'):
                self.paged('namespaces', names, size)
            else:
                self.paged('namespaces', [n for n in names if n[:-1] == parent], size)
            return
        tables = lake['namespaces'].get(rest[0].replace(separator, SEPARATOR))
        if tables is None:
            self.answer({'error': 'no such namespace'}, 404)
        elif len(rest) == 2:
            self.paged('identifiers', [{'namespace': rest[0].split(separator), 'name': t} for t in tables], size)
        elif rest[2] in tables:
            self.table(lake.get('uuids', {}).get(rest[2], rest[0] + '/' + rest[2]), lake.get('properties', {}).get(rest[2]))
        else:
            self.answer({'error': 'no such table'}, 404)

    def big(self, namespaces, tables, page=1000):
        if self.config(endpoints=['GET /v1/{prefix}/namespaces/{namespace}/tables']):
            return
        rest = self.segments[2:]
        if rest:
            self.paged('identifiers', range(tables), page, lambda i: {'namespace': rest[:1], 'name': 'table_%06d' % i})
        elif self.query.get('parent'):
            self.answer({'namespaces': []})
        else:
            self.paged('namespaces', range(namespaces), page, lambda i: ['namespace_%05d' % i])

    # --- what no server should do

    def one_namespace(self):
        """True when the question is for the tables of the one namespace; else it is answered."""
        if self.config():
            return False
        if self.segments[2:] == ['n', 'tables']:
            return True
        self.answer({'namespaces': [] if self.query.get('parent') else [['n']]})
        return False

    def silent(self):
        time.sleep(60)

    def stalled(self):
        """Most of a large answer."""
        self.raw(b'HTTP/1.1 200 OK\r\nContent-Length: 65000\r\n\r\n' + b' ' * 60000)
        time.sleep(3600)

    def drip(self):
        self.raw(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{')
        for _ in range(600):
            time.sleep(0.5)
            self.raw(b' ')

    def slow(self, seconds):
        if self.one_namespace():
            time.sleep(float(seconds))
            self.answer({'identifiers': [{'namespace': ['n'], 'name': 't'}]})

    def cut(self):
        if self.one_namespace():
            self.raw(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"identifiers": [')

    def longer(self):
        body = b'{"identifiers": [{"name": "t"}]}'
        if self.one_namespace():
            self.raw(b'HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s' % (len(body) + 10, body))

    def shorter(self):
        body = b'{"identifiers": [{"name": "t"}]}'
        if self.one_namespace():
            self.raw(b'HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s' % (len(body) - 10, body))

    def garbage(self):
        self.raw(bytes(range(256)) * 4)

    def chunks(self):
        if self.one_namespace():
            self.raw(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')
            while True:
                self.raw(b'10000\r\n' + b' ' * 65536 + b'\r\n')

    def bomb(self):
        if self.one_namespace():
            self.answer(BOMB, headers=[('Content-Encoding', 'gzip')])

    def gzip(self):
        if self.one_namespace():
            self.answer(gzip.compress(b'{"identifiers": [{"name": "t"}]}'), headers=[('Content-Encoding', 'gzip')])

    def header(self):
        self.raw(b'HTTP/1.1 200 OK\r\n')
        for i in range(100000):
            self.raw(b'X-%d: %s\r\n' % (i, b'x' * 1000))

    def deep(self):
        if self.one_namespace():
            self.answer(b'{"identifiers": ' + b'[' * 1000000 + b']' * 1000000 + b'}')

    def wide(self):
        if self.one_namespace():
            self.answer(b'{"identifiers": [' + b'[],' * 2000000 + b'[]]}')

    def notjson(self):
        if self.one_namespace():
            self.answer(b'<html>hello</html>')

    def other(self):
        if self.one_namespace():
            self.answer({'identifiers': {'a': 1}, 'next-page-token': 7})

    def bytes(self):
        """Names that cannot be kept, among others that can."""
        if self.one_namespace():
            self.answer(b'{"identifiers": [{"name": "good"}, {"name": "a\\u0000b"}, {"name": "bad\xff\xfe"}, {"name": "half\\ud800"},'
                        b' {"name": "%s"}, {"name": ""}, {"name": 7}, 8, null, {"name": "\\ud83d\\ude00"}, {"name": "\xc3\xa9"},'
                        b' {"name": "twice"}, {"name": "twice"}, {"name": "first", "name": "last"}, {"name": "a\\"b\\\\c"}]}' % (b'x' * 1000000))

    def properties(self):
        """A table with properties that cannot be kept, among others that can."""
        if self.segments[2:] == ['n', 'tables', 't']:
            self.answer(b'{"metadata": {"table-uuid": "u", "properties": {"self-optimizing.a": "x\\u0000y", "self-optimizing.b": "bad\xff\xfe",'
                        b' "self-optimizing.c": "good", "self-optimizing.d\\u0000": "x", "self-optimizing.e": 7, "self-optimizing.f": "half\\ud800"}}}')
        elif self.one_namespace():
            self.answer({'identifiers': [{'name': 't'}]})

    def sametoken(self):
        if self.one_namespace():
            self.answer({'identifiers': [{'name': 't'}], 'next-page-token': 'again'})

    def newtoken(self):
        if self.one_namespace():
            self.answer({'identifiers': [{'name': 't%d' % i} for i in range(100)], 'next-page-token': uuid.uuid4().hex})

    def emptypages(self):
        if self.one_namespace():
            self.answer({'identifiers': [], 'next-page-token': uuid.uuid4().hex})

    def hugetoken(self):
        if self.one_namespace():
            self.answer({'identifiers': [{'name': 't'}], 'next-page-token': 'x' * 10000000})

    def child(self):
        """Each namespace has itself below it."""
        if self.config():
            return
        if self.segments[2:]:
            self.answer({'identifiers': []})
        elif self.query.get('parent'):
            self.answer({'namespaces': [self.query['parent'].split(SEPARATOR)]})
        else:
            self.answer({'namespaces': [['n']]})

    def deeper(self):
        """Below each namespace there is another one."""
        if self.config():
            return
        if self.segments[2:]:
            self.answer({'identifiers': []})
        else:
            self.answer({'namespaces': [(self.query['parent'].split(SEPARATOR) if self.query.get('parent') else []) + ['n']]})

    def manyspaces(self):
        """Ever more namespaces."""
        if self.config():
            return
        first = int(self.query.get('pageToken') or 0)
        self.answer({'namespaces': [['n%d' % i] for i in range(first, first + 20000)], 'next-page-token': str(first + 20000)})

    def status(self, code):
        self.answer({'error': {}}, int(code))

    def later(self, code, times, seconds):
        """Refuses some times and says when to come again."""
        if self.one_namespace():
            if counter(self.path) < int(times):
                self.answer({}, int(code), [('Retry-After', seconds)])
            else:
                self.answer({'identifiers': [{'name': 't'}]})

    def redirect(self, where, *more):
        here = '%s://127.0.0.1:%d/' % ('https' if options.certificate else 'http', self.server.server_port)
        target = {'file': 'file:///etc/passwd', 'closed': 'http://127.0.0.1:1/', 'loop': here + 'redirect-loop/v1/config', 'same': here + 'gzip',
                  'inward': 'http://169.254.169.254/latest/meta-data', 'other': here.replace('127.0.0.1', 'localhost') + 'gzip',
                  'nowhere': ''}[where]
        if where in ('same', 'other'):
            target += '/' + '/'.join(self.segments) + '?' + urllib.parse.urlencode(self.query)
        # the connection is not used again
        self.answer({}, 302, ([('Location', target)] if target else []) + ([('Connection', 'close')] if where == 'closed' else []))


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        pass

    def get_request(self):
        connection, address = super().get_request()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection, address


parser = argparse.ArgumentParser()
parser.add_argument('--directory', required=True)
parser.add_argument('--certificate')
parser.add_argument('--key')
parser.add_argument('--client-ca')
options = parser.parse_args()
server = Server(('127.0.0.1', 0), Handler)
if options.certificate:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(options.certificate, options.key)
    if options.client_ca:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(options.client_ca)
    # the handshake is made in the thread of the connection, not where others are accepted
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
with open(os.path.join(options.directory, 'port.new'), 'w') as file:
    file.write(str(server.server_port))
os.rename(os.path.join(options.directory, 'port.new'), os.path.join(options.directory, 'port'))
server.serve_forever()
